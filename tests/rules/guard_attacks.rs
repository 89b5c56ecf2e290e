//! R114, R115, R116 from the other side: what someone tries who wants to change the session's project from a fork.
//!
//! Each line goes through the built binary as the hook gets it. One that passes is then truly run by bash in a
//! project: it changes nothing there, or README names the class of what leaf can't see. With `RUN_DENIED` in the
//! environment what is denied runs too, and must change the project: else the denial would be a false one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::desk::Desk;
use crate::support::forks::{Follower, Fork, Verdict, forking, verdict};
use serde_json::json;

/// What becomes of a line.
#[derive(Clone, Copy)]
enum Fate {
    /// It would change the project, and doesn't run.
    Denied,
    /// It runs and changes nothing there.
    Passes,
    /// It runs and changes the project: a phrase of README's list of what leaf can't see.
    Unseen(&'static str),
}
use Fate::{Denied, Passes, Unseen};

const README: &str = include_str!("../../README.md");

/// Programs that not every machine has: a line that names a missing one is judged, and not run.
const RARE: [&str; 19] = [
    "sudo", "doas", "rsync", "gh", "perl", "unzip", "zip", "curl", "wget", "patch", "ionice", "flock", "script",
    "shuf", "gzip", "scp", "taskset", "iconv", "busybox",
];

/// A project under git with all that may lead into it:
/// `{p}` the project, `{o}` a directory beside it, `{s}` the fork's scratch directory.
struct Ground<'d> {
    desk: &'d Desk,
    scratch: PathBuf,
}

const LAY: &str = r#"
set -e
export GIT_TEMPLATE_DIR=
git config --global user.name x; git config --global user.email x@example.org
git config --global init.defaultBranch main; git config --global protocol.file.allow always
git init -q --bare origin.git
cd project
git init -q
mkdir -p src/deep empty; echo a > a.txt; echo b > b.txt; echo 'fn main() {}' > src/main.rs; echo d > src/deep/d.rs
echo s > 'a b.txt'
git add -A; git commit -qm one; git checkout -q -b side; echo side > side.txt; git add -A; git commit -qm side
git checkout -q main; echo two >> a.txt; git commit -qam two; git tag v1
git remote add origin ../origin.git; git push -q -u origin main
echo stashed > src/main.rs; git stash -q
echo changed >> b.txt; echo c > c.txt; git add c.txt; echo u > u.txt
git worktree add -q ../out/wt -b wt
cd ../out
git clone -q ../origin.git clone; git -C clone commit -q --allow-empty -m three
git clone -q ../project local 2>/dev/null; git -C local commit -q --allow-empty -m three
git clone -q --bare ../origin.git bare.git
echo x > x.txt; echo new > a.txt; tar -cf t.tar a.txt
printf -- '--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-a\n+A\n two\n' > p.patch
! command -v zip >/dev/null || zip -q z.zip a.txt
! command -v gzip >/dev/null || gzip -k a.txt
ln -s ../project whole; ln -s ../project/src src; ln -s ../project/new.txt dangling; ln ../project/a.txt hard
mkdir deep; ln -s ../../project/src/deep deep/d; echo a.txt > list; mkdir one two
"#;

impl<'d> Ground<'d> {
    /// Before the session begins.
    fn lay(desk: &'d Desk) -> Self {
        fs::create_dir(desk.path("out")).expect("a directory");
        let root = desk.path("");
        let ran = in_bash(desk, &root, LAY);
        assert!(ran.0, "the ground is laid: {}", ran.1);
        let ground = Ground { desk, scratch: PathBuf::new() };
        let saved = "mkdir saved && cp -a project out origin.git saved/";
        assert!(in_bash(desk, &root, saved).0);
        ground
    }

    fn restore(&self, project: bool) {
        let line = "for d in project out origin.git; do mkdir -p $d; find $d -mindepth 1 -delete; done; \
                    cp -a saved/. .; find tmp -mindepth 2 -delete; mkdir -p \"$SCRATCH\"; chmod 700 \"$SCRATCH\"";
        let beside = "rm -rf out; cp -a saved/out .; ln -f project/a.txt out/hard; \
                      find tmp -mindepth 2 -delete; mkdir -m 700 -p \"$SCRATCH\"";
        let line = if project { line } else { beside };
        let line = line.replace("$SCRATCH", &self.scratch.to_string_lossy());
        let ran = in_bash(self.desk, &self.desk.path(""), &line);
        assert!(ran.0, "the ground is restored: {}", ran.1);
    }

    fn spelled(&self, line: &str) -> String {
        let said = |path: PathBuf| path.to_string_lossy().into_owned();
        line.replace("{p}", &said(self.desk.project()))
            .replace("{o}", &said(self.desk.path("out")))
            .replace("{s}", &self.scratch.to_string_lossy())
    }

    /// What stands in the project and in its repositories, but for objects and what git notes about looking.
    fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        for (name, root) in [("", self.desk.project()), ("origin/", self.desk.path("origin.git"))] {
            draw(&root, &root, name, &mut picture);
        }
        if self.desk.project().is_dir() {
            let index = in_bash(self.desk, &self.desk.project(), "git --git-dir=.git --work-tree=. ls-files -s -v");
            picture.insert("the index".into(), index.1);
        }
        picture
    }

    /// Runs a line as the client's shell would; names what it changed.
    fn changes(&self, line: &str, before: &BTreeMap<String, String>) -> (Vec<String>, String) {
        let (_, said) = in_bash(self.desk, &self.desk.project(), line);
        let after = self.picture();
        let gone = before.iter().filter(|(name, is)| after.get(*name) != Some(is)).map(|(name, _)| name);
        (gone.chain(after.keys().filter(|name| !before.contains_key(*name))).cloned().collect(), said)
    }
}

fn draw(root: &Path, at: &Path, name: &str, picture: &mut BTreeMap<String, String>) {
    let Ok(meta) = fs::symlink_metadata(at) else {
        return;
    };
    let below = at.strip_prefix(root).expect("below").to_string_lossy().into_owned();
    let git = !name.is_empty() || below.starts_with(".git");
    if git && (below.ends_with("objects") || below.ends_with(".git/index") || below.ends_with("COMMIT_EDITMSG")) {
        return;
    }
    let content = if meta.is_symlink() {
        fs::read_link(at).unwrap_or_default().to_string_lossy().into_owned()
    } else if meta.is_file() {
        String::from_utf8_lossy(&fs::read(at).unwrap_or_default()).into_owned()
    } else {
        String::new()
    };
    let time = if git || meta.is_dir() { 0 } else { meta.mtime() * 1_000_000_000 + meta.mtime_nsec() };
    picture
        .insert(format!("{name}{below}"), format!("{:o} {}:{} {time} {content}", meta.mode(), meta.uid(), meta.gid()));
    if meta.is_dir() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            draw(root, &entry.path(), name, picture);
        }
    }
}

/// Whether it succeeded, and what it said. Waits for all that it left behind with its output open.
fn in_bash(desk: &Desk, cwd: &Path, line: &str) -> (bool, String) {
    let out = Command::new("timeout")
        .args(["-k", "1", "30", "bash", "-c", line])
        .env_clear()
        .envs(desk.env())
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    let said = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|dir| Path::new(dir).join(program).is_file())
}

fn runnable(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    RARE.iter().all(|program| !words.contains(program) || there(program))
}

fn scratch(fork: &Fork<'_, '_>) -> PathBuf {
    let line = fork.prompt.lines().find_map(|line| line.strip_prefix("Scratch directory: "));
    PathBuf::from(line.expect("the prompt names a scratch directory"))
}

/// Every line of a table against the binary and against bash; all that isn't so, at once.
fn hold(table: &[(&str, Fate)]) {
    let desk = Desk::new();
    let mut ground = Ground::lay(&desk);
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    ground.scratch = scratch(&fork);
    let before = ground.picture();
    let run_denied = std::env::var_os("RUN_DENIED").is_some();
    let readme = README.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for (at, (line, fate)) in table.iter().enumerate() {
        let spelled = ground.spelled(line);
        let tool = if at % 5 == 4 { "Monitor" } else { "Bash" };
        let denied = match verdict(&fork.pre(tool, json!({"command": spelled, "description": "x"}))) {
            // R69 comes first, where it has a doubt.
            Verdict::Denied(reason) if reason.contains("R115") || reason.contains("R69") => true,
            Verdict::Passed => false,
            other => {
                wrong.push(format!("{line:?}: {other:?}"));
                continue;
            }
        };
        let as_told = denied == matches!(fate, Denied);
        if !runnable(line) || as_told && denied && !run_denied {
            if !as_told {
                wrong.push(format!("{line:?}: denied is {denied}"));
            }
            continue;
        }
        let (changed, said) = ground.changes(&spelled, &before);
        let harmless = changed.is_empty();
        ground.restore(!harmless);
        match fate {
            _ if !as_told => wrong.push(format!("{line:?}: denied is {denied}; it changes {changed:?}: {said}")),
            Denied if harmless => wrong.push(format!("{line:?} is denied and harmless: {said}")),
            Passes if !harmless => wrong.push(format!("{line:?} is no harmless one: it changes {changed:?}")),
            Unseen(_) if harmless => wrong.push(format!("{line:?} is harmless: {said}")),
            Unseen(class) if !readme.contains(class) => wrong.push(format!("README doesn't say {class:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
    assert_eq!(desk.errors(), Vec::<String>::new());
}

const SELF: &str = "programs that write by themselves";
const RUNNING: &str = "what only running tells";
const BRINGS: &str = "what the line itself brings about";
const NAMES: &str = "names that mean something else";
const OTHER: &str = "other names of a file: a hard link elsewhere";
const MAYBE: &str = "a directory that the line may or may not have changed to";
const WRAPPED: &str = "a command in an option or a parameter of another program";
const OUTSIDE: &str = "what lies outside the project directory";

const REDIRECTIONS: &[(&str, Fate)] = &[
    ("echo x > a.txt", Denied),
    ("echo x >a.txt", Denied),
    (">a.txt", Denied),
    (": > new.txt", Denied),
    ("echo x >| a.txt", Denied),
    ("echo x >> a.txt", Denied),
    ("echo x &> a.txt", Denied),
    ("echo x &>> a.txt", Denied),
    ("echo x >& a.txt", Denied),
    ("echo x 1> a.txt", Denied),
    ("echo x 3> a.txt", Denied),
    ("ls nowhere 2> a.txt", Denied),
    ("exec 3> a.txt", Denied),
    ("exec 3<> new.txt", Denied),
    ("echo x 1<> a.txt", Denied),
    ("exec {fd}> a.txt", Denied),
    ("> a.txt echo x", Denied),
    ("cat <<EOF > a.txt\nx\nEOF", Denied),
    ("cat > a.txt <<'EOF'\nx\nEOF", Denied),
    ("cat <<-EOF >> a.txt\n\tx\n\tEOF\n", Denied),
    ("cat <<< x > a.txt", Denied),
    ("echo x > >(cat > a.txt)", Denied),
    ("echo x | tee >(cat > a.txt) > /dev/null", Denied),
    ("echo x > /dev/null > a.txt", Denied),
    ("echo x > a.txt > /dev/null", Denied),
    ("echo x > \"a.txt\"", Denied),
    ("echo x > 'a b.txt'", Denied),
    ("echo x > a\\ b.txt", Denied),
    ("echo x > $'a.txt'", Denied),
    ("echo x > $'\\x61.txt'", Denied),
    ("echo x > \"$PWD/a.txt\"", Denied),
    ("echo x > ${PWD}/a.txt", Denied),
    ("echo x > ~+/a.txt", Denied),
    ("echo x > ~/../project/a.txt", Denied),
    ("echo x > $HOME/../project/a.txt", Denied),
    ("echo x > src/../a.txt", Denied),
    ("echo x > {p}//.//a.txt", Denied),
    ("echo x > {o}/src/main.rs", Denied),
    ("echo x > {o}/whole/a.txt", Denied),
    ("echo x > {o}/dangling", Denied),
    ("echo x > {o}/deep/d/../main.rs", Denied),
    ("echo x > {o}/hard", Unseen(OTHER)),
    ("echo x > /proc/self/cwd/a.txt", Denied),
    ("echo x > /proc/self/root{p}/a.txt", Denied),
    ("echo x > /proc/$$/cwd/a.txt", Unseen(RUNNING)),
    ("echo x > /dev/fd/../cwd/a.txt", Denied),
    ("exec 3< .; echo x > /dev/fd/3/a.txt", Unseen(BRINGS)),
    ("f=a.txt; echo x > $f", Denied),
    ("f=a.txt && echo x > \"${f}\"", Denied),
    ("export F=a.txt; echo x > \"$F\"", Denied),
    ("declare F=a.txt; echo x > $F", Denied),
    ("D={p}; echo x > $D/a.txt", Denied),
    ("D=~/../project; echo x > $D/a.txt", Denied),
    ("export D=~/../project && rm $D/a.txt", Denied),
    ("read -r f <<< a.txt; echo x > $f", Unseen(RUNNING)),
    ("echo x > $(echo a.txt)", Unseen(RUNNING)),
    ("echo x > {o}/../project/a.txt", Denied),
    ("ln -s {p} {s}/l; echo x > {s}/l/a.txt", Unseen(BRINGS)),
    ("{ echo x; } > a.txt", Denied),
    ("( echo x ) > a.txt", Denied),
    ("for i in 1 2; do echo $i; done > a.txt", Denied),
    ("while read -r l; do echo $l; done < b.txt > a.txt", Denied),
    ("if true; then echo x; fi > a.txt", Denied),
    ("f() { echo x; } > a.txt; f", Denied),
    ("[[ -f a.txt ]] > new.txt", Denied),
    ("echo x > new.txt\r\n", Denied),
    ("echo x 2>&1 > a.txt", Denied),
    ("echo x >&2 2> new.txt", Denied),
    ("cat a.txt - > b.txt", Denied),
    ("echo x \\\n  > \\\n  a.txt", Denied),
    ("# a comment\necho x > a.txt # and another", Denied),
    ("echo 'a # b' > a.txt", Denied),
    ("echo x ># a.txt", Passes),
    ("echo x > src/ñ.rs", Denied),
];

const WRITERS: &[(&str, Fate)] = &[
    ("echo x | tee a.txt", Denied),
    ("echo x | tee -a -- a.txt", Denied),
    ("echo x | tee {o}/y a.txt", Denied),
    ("echo x | sudo tee a.txt", Denied),
    ("dd if=/dev/null of=a.txt", Denied),
    ("echo x | dd of=./a.txt bs=1 2> /dev/null", Denied),
    ("sed -i s/a/b/ a.txt", Denied),
    ("sed -i.bak s/a/b/ a.txt", Denied),
    ("sed --in-place s/a/b/ a.txt", Denied),
    ("sed --in-place=.bak s/a/b/ a.txt", Denied),
    ("sed --in-pl s/a/b/ a.txt", Denied),
    ("sed -ni p a.txt", Denied),
    ("sed -n -i p a.txt", Denied),
    ("sed -Ei s/a/b/ a.txt", Denied),
    ("sed -e s/a/b/ -i a.txt", Denied),
    ("sed s/a/b/ a.txt -i", Denied),
    ("sed -i -e s/a/b/ -- a.txt", Denied),
    ("sed -ie s/a/b/ a.txt", Denied),
    ("sed -n 'w new.txt' b.txt", Unseen(SELF)),
    ("perl -pi -e s/a/b/ a.txt", Denied),
    ("perl -i.bak -pe s/a/b/ a.txt", Denied),
    ("perl -e 'unlink q(a.txt)'", Unseen(SELF)),
    ("awk '{ print > \"new.txt\" }' a.txt", Unseen(SELF)),
    ("awk -i inplace '{ print 1 }' a.txt; bash {s}/../x 2>/dev/null", Passes),
    ("install -m 644 b.txt new.txt", Denied),
    ("install -d new", Denied),
    ("install -t src b.txt", Denied),
    ("install -D b.txt new/n.txt", Denied),
    ("ln -s x new", Denied),
    ("ln b.txt new.txt", Denied),
    ("ln -sf {o}/x.txt {o}/src", Denied),
    ("ln -sfn {o}/x.txt {o}/src", Passes),
    ("ln -t src {o}/x.txt", Denied),
    ("ln -s {p}/a.txt {s}/link", Passes),
    ("cp b.txt a.txt", Denied),
    ("cp -t src b.txt", Denied),
    ("cp -rt src b.txt", Denied),
    ("cp --target-directory=src b.txt", Denied),
    ("cp --target-dir src b.txt", Denied),
    ("cp -r src new", Denied),
    ("cp {o}/x.txt .", Denied),
    ("cp {o}/x.txt {o}/whole", Denied),
    ("cp -r . {s}/copy", Passes),
    ("mv a.txt z.txt", Denied),
    ("mv a.txt {s}/", Denied),
    ("mv -t {s} a.txt", Denied),
    ("mv -t src {o}/x.txt", Denied),
    ("mv {o}/src {o}/s2", Passes),
    ("mv {p} {o}/moved", Denied),
    ("rsync -a src/ new/", Denied),
    ("rsync -a --delete {o}/one/ src/", Denied),
    ("rsync -a . {s}/copy", Passes),
    ("scp b.txt a.txt", Denied),
    ("tar -xf {o}/t.tar", Denied),
    ("tar xf {o}/t.tar", Denied),
    ("tar --extract --file={o}/t.tar", Denied),
    ("tar -C src -xf {o}/t.tar", Denied),
    ("tar -xf {o}/t.tar --directory=src", Denied),
    ("cd {o} && tar -xf t.tar -C {p}", Denied),
    ("tar -cf new.tar src", Denied),
    ("tar cf - src | tar xf - -C {p}/empty", Denied),
    ("tar cf - src | tar xf - -C {s}", Passes),
    ("unzip -o {o}/z.zip", Denied),
    ("unzip -q {o}/z.zip -d new", Denied),
    ("unzip -q {o}/z.zip -d {s}", Passes),
    ("unzip -l {o}/z.zip", Passes),
    ("zip -q new.zip a.txt", Denied),
    ("gzip b.txt", Denied),
    ("gzip -c a.txt > {s}/a.gz", Passes),
    ("gzip -d < {o}/a.txt.gz > new.txt", Denied),
    ("patch -p1 < {o}/p.patch", Denied),
    ("patch -p1 -i {o}/p.patch", Denied),
    ("patch -d {p} -p1 < {o}/p.patch", Denied),
    ("cd {o} && patch -p1 -d {p} < p.patch", Denied),
    ("patch a.txt {o}/p.patch", Denied),
    ("patch --dry-run -p1 < {o}/p.patch", Passes),
    ("truncate -s 0 a.txt", Denied),
    ("truncate --size=0 a.txt", Denied),
    ("sort -o a.txt b.txt", Denied),
    ("sort --output=a.txt b.txt", Denied),
    ("sort b.txt -oa.txt", Denied),
    ("sort -uo a.txt b.txt", Denied),
    ("shuf -o a.txt b.txt", Denied),
    ("uniq b.txt new.txt", Denied),
    ("split -l 1 a.txt", Denied),
    ("split -l 1 a.txt part-", Denied),
    ("split -l 1 a.txt {s}/part-", Passes),
    ("csplit -s a.txt 2", Denied),
    ("curl -s -o new.txt file://{o}/x.txt", Denied),
    ("curl -sSLo new.txt file://{o}/x.txt", Denied),
    ("curl -s --output new.txt file://{o}/x.txt", Denied),
    ("curl -sO file://{o}/x.txt", Denied),
    ("curl -s file://{o}/x.txt -o {s}/x", Passes),
    ("curl -s file://{o}/x.txt", Passes),
    ("wget -q -O new.txt file://{o}/x.txt || touch new.txt", Denied),
    ("wget -q -P src x.invalid/y; touch new.txt", Denied),
    ("touch new.txt", Denied),
    ("touch a.txt", Denied),
    ("mkdir new", Denied),
    ("mkdir -p -m 700 src/n/m", Denied),
    ("rmdir empty", Denied),
    ("unlink a.txt", Denied),
    ("shred -u a.txt", Denied),
    ("chmod +x a.txt", Denied),
    ("chmod -R go-rx src", Denied),
    ("chmod 711 {o}/whole", Denied),
    ("chown 1 a.txt", Denied),
    ("mkfifo new", Denied),
    ("mknod new p", Denied),
    ("mktemp ./XXXXXX", Denied),
    ("mktemp -p .", Denied),
    ("mktemp -d --tmpdir=src", Denied),
    ("mktemp", Passes),
    ("fallocate -l 1 new.txt", Denied),
    ("iconv -f utf8 -t utf8 -o new.txt a.txt", Denied),
    ("rm a.txt", Denied),
    ("rm -rf ./*", Denied),
    ("rm -r -- src", Denied),
    ("rm -rf .git", Denied),
    ("rm -rf {p}", Denied),
    ("rm -rf ../project", Denied),
    ("rm *.txt", Denied),
    ("rm [ab].txt", Unseen(RUNNING)),
    ("rm ?.txt src/*", Denied),
    ("rm {a,b}.txt", Unseen(RUNNING)),
    ("rm s*/main.rs", Unseen(RUNNING)),
    ("rm {o}/src", Passes),
    ("rm {o}/src/main.rs", Denied),
    ("rm -rf {o}", Passes),
    ("find . -name a.txt -delete", Denied),
    ("find -name a.txt -delete", Denied),
    ("find . -name a.txt -exec rm {} \\;", Denied),
    ("find . -name '*.txt' -exec rm {} +", Denied),
    ("find src -name '*.rs' -execdir rm {} ';'", Denied),
    ("find {p}/src -type f -exec sed -i s/f/g/ {} +", Denied),
    ("find . -name a.txt -exec sh -c 'rm \"$1\"' _ {} \\;", Unseen(WRAPPED)),
    ("find . -maxdepth 0 -fprint new.txt", Denied),
    ("find . -maxdepth 0 -fls new.txt", Denied),
    ("find . -maxdepth 0 -fprintf new.txt %p", Denied),
    ("find {o} -maxdepth 0 -fprint {p}/new.txt", Denied),
    ("find . -name a.txt | xargs rm", Denied),
    ("find . -name a.txt -print0 | xargs -0 -n 1 rm -f", Denied),
    ("find . -name a.txt | xargs -I{} rm {}", Denied),
    ("git ls-files '*.txt' | xargs sed -i s/a/b/", Denied),
    ("ls *.txt | xargs -d '\\n' rm", Unseen("`xargs` fed by anything but")),
    ("grep -rl fn src | xargs sed -i s/fn/gn/", Denied),
    ("echo a.txt | xargs rm", Unseen("`xargs` fed by anything but")),
    ("xargs -a {o}/list rm", Unseen("`xargs` fed by anything but")),
    ("xargs rm a.txt < /dev/null", Denied),
    ("printf 'H\\nw new.txt\\nq\\n' | ed -s a.txt > /dev/null; true", Unseen(SELF)),
];

const SHELL: &[(&str, Fate)] = &[
    ("command rm a.txt", Denied),
    ("command -p rm a.txt", Denied),
    ("builtin echo x > a.txt", Denied),
    ("exec rm a.txt", Denied),
    ("exec -a other rm a.txt", Denied),
    ("env rm a.txt", Denied),
    ("env -i /bin/rm a.txt", Denied),
    ("env -u X A=b rm a.txt", Denied),
    ("env -C src rm main.rs", Denied),
    ("env --chdir=src rm main.rs", Denied),
    ("cd {o} && env -C {p} rm a.txt", Denied),
    ("env -S 'rm a.txt'", Unseen(WRAPPED)),
    ("A=b rm a.txt", Denied),
    ("nice rm a.txt", Denied),
    ("nice -n 5 rm a.txt", Denied),
    ("nice -5 rm a.txt", Denied),
    ("ionice -c 3 rm a.txt", Denied),
    ("timeout 5 rm a.txt", Denied),
    ("timeout -k 1 --signal=KILL 5 rm a.txt", Denied),
    ("stdbuf -oL rm a.txt", Denied),
    ("stdbuf -o L rm a.txt", Denied),
    ("setsid -w rm a.txt", Denied),
    ("nohup rm a.txt", Denied),
    ("sudo rm a.txt", Denied),
    ("sudo -n -u root rm a.txt", Denied),
    ("sudo -- sh -c 'rm a.txt'", Denied),
    ("doas rm a.txt", Denied),
    ("flock {s}/l rm a.txt", Unseen(WRAPPED)),
    ("flock {s}/l -c 'rm a.txt'", Unseen(WRAPPED)),
    ("script -qc 'rm a.txt' /dev/null", Unseen(WRAPPED)),
    ("taskset 1 rm a.txt", Unseen(WRAPPED)),
    ("busybox rm a.txt", Denied),
    ("timeout 5 nice env A=b bash -c 'rm a.txt'", Denied),
    ("/bin/rm a.txt", Denied),
    ("\\rm a.txt", Denied),
    ("\"rm\" a.txt", Denied),
    ("r''m a.txt", Denied),
    ("r\\m a.txt", Denied),
    ("$'\\162\\155' a.txt", Denied),
    ("r\\\nm a.txt", Denied),
    ("rm \\\n  a.txt", Denied),
    ("rm\ta.txt", Denied),
    ("X=rm; $X a.txt", Denied),
    ("X='rm a.txt'; $X", Unseen(RUNNING)),
    ("X='rm a.txt'; eval \"$X\"", Denied),
    ("X='rm a.txt'; bash -c \"$X\"", Denied),
    ("$(echo rm) a.txt", Denied),
    ("eval 'rm a.txt'", Denied),
    ("eval rm a.txt", Denied),
    ("eval \"rm\" \"a.txt\"", Denied),
    ("eval 'eval \"rm a.txt\"'", Denied),
    ("bash -c 'rm a.txt'", Denied),
    ("sh -ec 'rm a.txt'", Denied),
    ("bash -xc 'rm a.txt'", Denied),
    ("bash -o pipefail -c 'rm a.txt'", Denied),
    ("bash --norc -c \"rm a.txt\"", Denied),
    ("sh -c 'rm \"$1\"' _ a.txt", Unseen(WRAPPED)),
    ("sh -c 'rm \"$@\"' _ a.txt", Unseen(WRAPPED)),
    ("bash <<< 'rm a.txt'", Denied),
    ("bash <<'E'\nrm a.txt\nE", Denied),
    ("bash -s <<E\nrm a.txt\nE", Denied),
    ("echo 'rm a.txt' | sh", Denied),
    ("cat <<'E' | bash\nrm a.txt\nE", Denied),
    ("bash <(echo rm a.txt)", Denied),
    ("source <(echo rm a.txt)", Denied),
    ("echo 'rm a.txt' > {s}/x.sh; bash {s}/x.sh", Unseen("any script or binary")),
    ("source /dev/stdin <<< 'rm a.txt'", Unseen(SELF)),
    ("trap 'rm a.txt' EXIT", Denied),
    ("trap \"rm a.txt\" 0", Denied),
    ("trap -- 'rm a.txt' EXIT INT", Denied),
    ("coproc rm a.txt; wait", Denied),
    ("coproc C { rm a.txt; }; wait", Denied),
    ("time rm a.txt", Denied),
    ("time -p rm a.txt", Denied),
    ("! rm a.txt", Denied),
    ("rm a.txt & wait", Denied),
    ("true & rm a.txt", Denied),
    ("f() { rm a.txt; }; f", Denied),
    ("function f { rm a.txt; }; f", Denied),
    ("f() ( rm a.txt ); f", Denied),
    ("f() { rm \"$1\"; }; f a.txt", Unseen(RUNNING)),
    ("shopt -s expand_aliases\nalias x='rm a.txt'\nx", Unseen(NAMES)),
    ("if true; then rm a.txt; fi", Denied),
    ("if [ -f nowhere ]; then :; else rm a.txt; fi", Denied),
    ("if ! [ -f a.txt ]; then :; elif true; then rm a.txt; fi", Denied),
    ("if rm a.txt; then :; fi", Denied),
    ("while true; do rm a.txt; break; done", Denied),
    ("until rm a.txt; do :; done", Denied),
    ("for i in 1; do rm a.txt; done", Denied),
    ("for f in a.txt; do rm $f; done", Denied),
    ("for f in *.txt; do rm \"$f\"; done", Denied),
    ("for ((i=0;i<1;i++)); do rm a.txt; done", Denied),
    ("select x in 1; do rm a.txt; break; done <<< 1", Denied),
    ("case x in x) rm a.txt;; esac", Denied),
    ("case x in (a|x) rm a.txt ;; *) : ;; esac", Denied),
    ("[[ -f a.txt ]] && rm a.txt", Denied),
    ("test -f nowhere || rm a.txt", Denied),
    ("false; rm a.txt", Denied),
    ("true && { rm a.txt; }", Denied),
    ("(((1))) ; (rm a.txt)", Denied),
    ("echo $(rm a.txt)", Denied),
    ("echo `rm a.txt`", Denied),
    ("echo \"now $(rm a.txt)\"", Denied),
    ("echo \"`rm a.txt`\"", Denied),
    ("x=$(rm a.txt)", Denied),
    ("x=$(rm a.txt) true", Denied),
    ("echo $(echo $(rm a.txt))", Denied),
    ("cat <(rm a.txt)", Denied),
    ("[[ $(rm a.txt) ]]", Denied),
    ("echo $(( $(rm a.txt; echo 1) + 1 ))", Denied),
    ("(( x = $(rm a.txt; echo 1) ))", Denied),
    ("cat <<E\n$(rm a.txt)\nE", Denied),
    ("cat <<\"E\"\n$(rm a.txt)\nE", Passes),
    ("cat <<< \"$(rm a.txt)\"", Denied),
    ("echo ${x:-$(rm a.txt)}", Denied),
    ("echo \"${x:=`rm a.txt`}\"", Denied),
    ("a=(1 $(rm a.txt))", Denied),
    ("for x in $(rm a.txt); do :; done", Denied),
    ("case $(rm a.txt) in x) :;; esac", Denied),
    ("echo x > \"$(rm a.txt; echo /dev/null)\"", Denied),
    ("cd src && rm main.rs", Denied),
    ("cd {o} && cd - > /dev/null && rm a.txt", Denied),
    ("cd {o}; cd {p}; rm a.txt", Denied),
    ("pushd {o} > /dev/null; popd > /dev/null; rm a.txt", Denied),
    ("pushd src > /dev/null && rm main.rs", Denied),
    ("(cd {o}); rm a.txt", Denied),
    ("(cd {o} && true) && rm a.txt", Denied),
    ("cd {o} | true; rm a.txt", Denied),
    ("cd {o} & rm a.txt", Unseen(MAYBE)),
    ("cd {o}/src && rm main.rs", Denied),
    ("cd {o}/whole; rm a.txt", Denied),
    ("cd -P {o}/src/.. && rm a.txt", Denied),
    ("cd -P {o}/src && cd .. && rm a.txt", Denied),
    ("cd {o} && cd \"$OLDPWD\" && rm a.txt", Unseen(RUNNING)),
    ("cd {o} && rm {p}/a.txt", Denied),
    ("cd {o} && rm ../project/a.txt", Denied),
    ("cd && cd - > /dev/null && rm a.txt", Denied),
    ("cd /nowhere; rm a.txt", Denied),
    ("cd {o}\ncd {p}\nrm a.txt", Denied),
    ("builtin cd src && rm main.rs", Denied),
    ("command cd src; rm main.rs", Denied),
    ("{ cd {o}; }; cd whole && rm a.txt", Denied),
    ("bash -c 'cd {p} && rm a.txt'", Denied),
    ("bash -c 'cd {o}'; rm a.txt", Denied),
    ("f() { cd {o}; }; rm a.txt", Unseen(MAYBE)),
    ("x=$(cd {o}; pwd); rm a.txt", Denied),
    ("CDPATH={p}; cd {o}; cd deep > /dev/null && rm d.rs; cd src 2>/dev/null && rm main.rs", Unseen(NAMES)),
    ("cd \"$(git rev-parse --show-toplevel)\" && rm a.txt", Denied),
    ("cd {o} && rm a.txt", Passes),
    ("cd {o}/one && touch x && cd ../two && touch y && cd - && rm x", Passes),
    ("cd {o}/clone && rm a.txt && git commit -qam x", Passes),
    ("cd {s} && echo x > a.txt && rm a.txt", Passes),
    ("pushd {s} && touch a && rm a && popd", Passes),
    ("if cd {o}; then rm a.txt; fi", Passes),
    ("cd {o} && false || rm -f a.txt", Passes),
    ("cd {o} || exit; rm -f a.txt", Passes),
    ("(cd {o} && rm a.txt)", Passes),
];

const GIT: &[(&str, Fate)] = &[
    ("git commit -qam x", Denied),
    ("git commit -m x\r\n", Denied),
    ("/usr/bin/git commit -qm x", Denied),
    ("git \"commit\" -qm x", Denied),
    ("git com\\mit -qm x", Denied),
    ("g=git; $g commit -qm x", Denied),
    ("git -C . commit -qm x", Denied),
    ("git -C src commit -qm x", Denied),
    ("git -C {o} -C {p} commit -qm x", Denied),
    ("git -C {o}/whole commit -qm x", Denied),
    ("git -C \"$PWD\" commit -qm x", Denied),
    ("cd {o} && git -C \"$OLDPWD\" commit -qm x", Unseen(RUNNING)),
    ("cd {o} && git -C {p} commit -qm x", Denied),
    ("cd {o} && git --git-dir={p}/.git --work-tree={p} commit -qm x", Denied),
    ("cd {o} && git --git-dir {p}/.git tag n", Denied),
    ("cd {o} && git --git-dir={o}/whole/.git tag n", Denied),
    ("cd {p}/.git && git tag n", Denied),
    ("cd {o} && GIT_DIR={p}/.git git tag n", Denied),
    ("cd {o} && env GIT_DIR={p}/.git git tag n", Denied),
    ("cd {o} && export GIT_DIR={p}/.git; git tag n", Denied),
    ("cd {o}/clone && GIT_DIR={p}/.git GIT_WORK_TREE=. git commit -qm x", Denied),
    ("GIT_WORK_TREE={p} git -C {o}/clone checkout -qf HEAD -- .", Denied),
    ("git --work-tree={p} --git-dir={o}/clone/.git checkout -qf HEAD -- .", Denied),
    ("git -C {o}/clone config core.worktree {p} && git -C {o}/clone reset -q --hard", Unseen(BRINGS)),
    ("git -c alias.x='commit -qm x' x", Unseen(NAMES)),
    ("git -c alias.x='!rm a.txt' x", Unseen(NAMES)),
    ("git config --global alias.x 'commit -qm x'; git x", Unseen(NAMES)),
    ("git -c core.hooksPath=/nowhere commit -qm x", Denied),
    ("git -c user.name=y --no-pager commit -qm x", Denied),
    ("git --no-pager -c color.ui=never stash", Denied),
    ("git stash pop", Denied),
    ("git stash drop", Denied),
    ("git stash push -m x", Denied),
    ("git stash list", Passes),
    ("git stash show", Passes),
    ("git update-ref refs/heads/n HEAD", Denied),
    ("git symbolic-ref HEAD refs/heads/side", Denied),
    ("git symbolic-ref HEAD", Passes),
    ("git config user.x y", Denied),
    ("git config --local user.x y", Denied),
    ("git config --unset branch.main.remote", Denied),
    ("git config --get user.name", Passes),
    ("git config user.name", Passes),
    ("git config -l", Passes),
    ("git worktree add -q {s}/w2 side", Denied),
    ("git worktree remove --force {o}/wt", Denied),
    ("git worktree list", Passes),
    ("git -C {o}/clone worktree add -q {p}/w3", Denied),
    ("git apply {o}/p.patch", Denied),
    ("git stash -q; git apply --index {o}/p.patch", Denied),
    ("git apply --check {o}/p.patch", Passes),
    ("git apply --stat {o}/p.patch", Passes),
    ("git diff HEAD~ HEAD -- a.txt | git apply -R", Denied),
    ("git bisect start", Denied),
    ("git notes add -m x", Denied),
    ("git notes list", Passes),
    ("git checkout -q side", Denied),
    ("git checkout -qb n", Denied),
    ("git checkout -- b.txt", Denied),
    ("git checkout .", Denied),
    ("git switch -qc n", Denied),
    ("git restore b.txt", Denied),
    ("git restore --staged c.txt", Denied),
    ("git reset -q", Denied),
    ("git reset --hard", Denied),
    ("git rm -q --cached a.txt", Denied),
    ("git mv a.txt z.txt", Denied),
    ("git add -A", Denied),
    ("git stage u.txt", Denied),
    ("git add -n .", Passes),
    ("git clean -fdq", Denied),
    ("git clean -n", Passes),
    ("git merge -q side --no-edit", Denied),
    ("git rebase -q --autostash side", Denied),
    ("git cherry-pick -n side || git cherry-pick --abort; git stash", Denied),
    ("git revert --no-edit HEAD; git stash", Denied),
    ("git tag v2", Denied),
    ("git tag -d v1", Denied),
    ("git tag -l 'v*'", Passes),
    ("git branch n", Denied),
    ("git branch -D side", Denied),
    ("git branch -m side other", Denied),
    ("git branch --unset-upstream", Denied),
    ("git branch -a -vv", Passes),
    ("git branch --show-current", Passes),
    ("git branch --contains HEAD", Passes),
    ("git remote add up x", Denied),
    ("git remote set-url origin x", Denied),
    ("git remote -v", Passes),
    ("git remote get-url origin", Passes),
    ("git push -q origin main:n", Denied),
    ("git push -q --force origin side", Denied),
    ("git push -q origin side:other; git push -q origin :main", Denied),
    ("git pull -q origin side", Denied),
    ("git fetch -q", Unseen("`git fetch`")),
    ("git submodule add {o}/clone sub", Denied),
    ("git submodule status", Passes),
    ("git sparse-checkout set src", Denied),
    ("git update-index --assume-unchanged a.txt", Denied),
    ("git read-tree side", Denied),
    ("git checkout-index -f b.txt", Denied),
    ("git pack-refs --all", Denied),
    ("git gc -q", Denied),
    ("git reflog expire --expire=now --all", Denied),
    ("git reflog", Passes),
    ("git replace HEAD HEAD~", Denied),
    ("git init -q new", Denied),
    ("git init -q {s}/new", Passes),
    ("git clone -q . new", Denied),
    ("git clone -q {o}/clone {p}/new", Denied),
    ("git clone -q . {s}/c && cd {s}/c && git commit -q --allow-empty -m x && git tag n", Passes),
    ("git archive -o new.tar HEAD", Denied),
    ("git archive HEAD | tar x -C {s}", Passes),
    ("git -C {o}/clone archive -o {p}/new.tar HEAD", Denied),
    ("git format-patch -q -1", Denied),
    ("git format-patch -q -1 -o {s}", Passes),
    ("git -C {o}/clone format-patch -q -1 -o {p}", Denied),
    ("git format-patch --stdout -1", Passes),
    ("git diff --output=new.txt", Denied),
    ("git log --output=new.txt", Denied),
    ("git -C {o}/clone log --output={p}/new.txt", Denied),
    ("git bundle create -q new.bundle HEAD", Denied),
    ("git bundle create -q {s}/x.bundle HEAD", Passes),
    ("git -C {o}/clone checkout-index --prefix={p}/new/ -a", Denied),
    ("git merge-file a.txt b.txt c.txt || true", Denied),
    ("git submodule foreach --quiet 'true'; git stash", Denied),
    ("cd {o}/wt && git commit -q --allow-empty -m x", Denied),
    ("git -C {o}/wt branch n", Denied),
    ("cd {o}/clone && git commit -q --allow-empty -m x", Passes),
    ("cd {o}/clone && git push -q", Unseen(OUTSIDE)),
    ("cd {o}/clone && git push -q {p} HEAD:refs/heads/n", Denied),
    ("cd {o}/local && git push -q origin HEAD:refs/heads/n", Denied),
    ("git --git-dir={o}/bare.git push -q {p} main:refs/heads/n", Denied),
    ("cd {o}/local && git pull -q && git fetch -q", Passes),
    ("git -c core.fsmonitor='rm a.txt' status", Unseen(SELF)),
    ("git -c diff.external='rm a.txt #' diff", Unseen(SELF)),
    ("GIT_EXTERNAL_DIFF='rm a.txt #' git diff", Unseen(SELF)),
    ("git status; git log | head -1 && git commit -qm x", Denied),
    ("(git commit -qm x)", Denied),
    ("git commit -qm \"$(cat <<'E'\nit's done\nE\n)\"", Denied),
    ("git commit -q -F - <<'E'\nx\nE", Denied),
    ("gh pr create --fill", Denied),
    ("gh pr merge 5", Denied),
    ("gh pr view 5", Passes),
    ("gh pr checkout 5", Denied),
];

/// What nobody may be hindered in.
const HARMLESS: &[&str] = &[
    "D=~/d; mkdir -p $D",
    "export D=~/d; mkdir -p \"$D\" && touch \"$D/x\"",
    "cd {o}/one && cd - > /dev/null; ls",
    "pushd {o}/one; touch x; popd",
    "cd {o}/one; cd {o}/two; touch x; cd - && touch y",
    "env -C {o} touch x",
    "env --chdir={o}/one rm -f x",
    "mktemp -t x.XXXX",
    "mktemp -p {s}",
    "mktemp {s}/XXXX",
    "mktemp --tmpdir x.XXXX",
    "uniq a.txt",
    "uniq -c a.txt",
    "uniq - {s}/x < a.txt",
    "shuf -n 1 a.txt",
    "iconv -f utf8 -t ascii a.txt",
    "find . -name x -fprint {s}/l",
    "git -c core.quotePath=off log -1 > /dev/null",
    "git merge-file -p a.txt b.txt c.txt > {s}/m || true",
    "git -C {o}/clone worktree add -q {s}/w",
    "X=ls; $X -la",
    "X=ls; bash -c \"$X\"",
    "csplit -s -f {s}/xx a.txt 2",
    "cd {o}/one; cd nowhere || true; touch z",
    "sed --quiet 1p a.txt",
    "cd {p} && false && cd {o}/one; cd {o}/two; cd - > /dev/null; ls",
    "export F={s}/f; echo x > $F",
    "declare -r F={s}/f; echo x > \"$F\"",
    "F=a.txt; F={s}/f; echo x > $F",
    "cd -P {o}/clone && touch x",
    "cd {o}/src/.. && touch x",
    "builtin cd {o} && touch x",
    "mknod {s}/p p",
    "D=$(mktemp -d); cd \"$D\" && touch x",
    "git status",
    "git log --oneline -5 > /dev/null",
    "git diff HEAD~ -- src 2>&1 | head -3",
    "git show HEAD:src/main.rs",
    "git blame a.txt",
    "git grep -n 'rm -rf'",
    "git rev-parse HEAD",
    "git ls-files -s",
    "git for-each-ref",
    "git show-ref --heads",
    "git cat-file -p HEAD",
    "git log -S'> a.txt' --all",
    "git log --grep='git push'",
    "git diff --stat; git stash list",
    "git describe --tags",
    "git shortlog -s HEAD",
    "git merge-base main side",
    "git ls-remote origin",
    "git rev-list --count HEAD",
    "git log main..side",
    "git diff side -- > {s}/d.patch",
    "git show side:side.txt > {s}/side.txt",
    "git --no-pager log -p -1",
    "GIT_PAGER=cat git log -1",
    "git -C {o}/clone checkout -q -b n",
    "git clone -q {p} {s}/c && cd {s}/c && git checkout -qb n",
    "grep -rn '> a.txt' src",
    "grep -rn \"rm -rf\" . | head",
    "grep -c x a.txt || true",
    "echo 'rm a.txt'",
    "echo \"git push\"",
    "echo 'x > a.txt'",
    "echo x \\> a.txt",
    "echo '$(rm a.txt)'",
    "echo \"a > b\" | cat",
    "printf '%s\\n' '> a.txt' 'git commit -m x'",
    "# rm a.txt",
    "true # > a.txt",
    "echo a#b",
    "ls -la > /dev/null 2>&1",
    "ls &> /dev/null",
    "ls 2>&1 >/dev/null",
    "ls >&2",
    "cat a.txt 2>/dev/null | wc -l",
    "cat < a.txt",
    "cat <> /dev/null",
    "awk '$1 > 2 { print }' a.txt",
    "awk 'length > 3' a.txt",
    "awk '{ if ($1 >= 2) n++ } END { print n }' a.txt",
    "[ a \\> b ] || true",
    "[[ a > b ]] || [[ b < c ]]",
    "test a '>' b || true",
    "((a>b)) || true",
    "echo $((5>3))",
    "echo $(( 1 >> 0 ))",
    "if (( 3 > 2 )); then echo y; fi",
    "for ((i=0; i<3; i++)); do echo $i; done",
    "cat <<'E'\nrm a.txt\ngit push\necho x > a.txt\nE",
    "cat <<E\nrm a.txt > b.txt\nE",
    "cat > {s}/n.md <<'E'\n> quoted\nrm a.txt\nE",
    "sed -n 1,5p a.txt",
    "sed 's/>/</' a.txt",
    "sed -e 's/-i/x/' a.txt",
    "sed -n 's/i/w/p' a.txt",
    "perl -ne 'print if $. > 1' a.txt",
    "sort a.txt b.txt | uniq -c",
    "sort -k2 a.txt",
    "find . -name '*.rs' -print",
    "find . -type f -exec grep -l fn {} +",
    "find . -name '*.rs' | xargs wc -l",
    "find . -newer a.txt -not -path './.git/*'",
    "find {s} -name x -delete",
    "tar -tf {o}/t.tar",
    "tar -czf {s}/src.tgz src",
    "cp a.txt {s}/",
    "cp -r src {s}/src",
    "cp a.txt b.txt -t {s}",
    "mkdir -p {s}/d && touch {s}/d/x && rm -r {s}/d",
    "tee {s}/log < a.txt",
    "echo x > {s}/a.txt",
    "echo x > $TMPDIR/a.txt",
    "echo x >> /tmp/../dev/null",
    "echo x > ~/notes.md",
    "dd if=a.txt of=/dev/null 2>/dev/null",
    "dd if=a.txt of={s}/a 2>&1",
    "diff a.txt b.txt > {s}/d || true",
    "diff <(sort a.txt) <(sort b.txt) || true",
    "install -m 644 a.txt {s}/b",
    "ln -sf {p}/a.txt {s}/l",
    "touch -r a.txt {s}/t",
    "stat a.txt",
    "file a.txt || true",
    "md5sum a.txt",
    "wc -l < a.txt",
    "head -c 10 a.txt | od -c",
    "export X=rm; echo $X a.txt",
    "x='rm a.txt'; echo \"$x\"",
    "echo rm a.txt",
    "which rm git",
    "command -v rm",
    "type rm",
    "man rm > /dev/null 2>&1 || true",
    "rm --help > /dev/null",
    "git commit --help > /dev/null 2>&1 || true",
    "timeout 5 ls",
    "env | grep -c x || true",
    "nice ls",
    "bash -c 'ls > /dev/null'",
    "sh -c 'echo \"rm a.txt\"'",
    "eval 'echo x'",
    "trap 'rm -f {s}/t' EXIT; touch {s}/t",
    "cd {o}/one && echo x > y && cat y",
    "cd {o}/wt && cat a.txt",
    "(cd {s} && echo x > f)",
    "mktemp -d",
    "t=$(mktemp) && echo x > \"$t\" && rm \"$t\"",
    "D={s}; mkdir -p $D/x; echo y > \"$D/x/y\"",
    "cd \"$TMPDIR\" && echo x > y",
    "while read -r l; do echo \"$l\"; done < a.txt > /dev/null",
    "for f in *.txt; do wc -l \"$f\"; done",
    "for f in a b; do echo x > {s}/$f; done",
    "case a in b) rm ;; esac",
    "cat a.txt | tee /dev/stderr 2>/dev/null | tee /dev/null",
    "echo x > /dev/stdout",
    "echo x > /dev/fd/1",
    "curl -s -o /dev/null file://{o}/x.txt",
    "chmod 600 {s}",
    "kill -0 $$",
    "sleep 0",
    "truncate -s 0 {s}/x",
    "split -l 1 a.txt {s}/p",
    "mv {o}/x.txt {s}/",
    "patch -p1 -d {o} < {o}/p.patch; true",
    "patch -p1 -o {s}/a < {o}/p.patch",
    "xargs echo < a.txt",
    "echo a.txt | xargs cat",
    "echo \"it's > fine\"",
    "echo 'say \"> a.txt\"'",
    "echo $'it\\'s > a.txt'",
    "echo \"\\\"> a.txt\"",
    "echo {a,b} '>' c",
    "echo a\\;rm a.txt",
    "echo \"${X:-> a.txt}\"",
    "[[ $x =~ ^a>b$ ]] || true",
    "let 'x=5>3'",
    "x=(a '>' b); echo \"${x[1]}\"",
    "echo ${#PATH} > /dev/null",
];

#[test]
fn r115_no_redirection_gets_by() {
    hold(REDIRECTIONS);
}

#[test]
fn r115_no_program_that_writes_gets_by() {
    hold(WRITERS);
}

#[test]
fn r115_no_spelling_of_the_shell_gets_by() {
    hold(SHELL);
}

#[test]
fn r115_no_spelling_of_git_gets_by() {
    hold(GIT);
}

#[test]
fn r115_what_harms_nothing_passes() {
    let table: Vec<(&str, Fate)> = HARMLESS.iter().map(|line| (*line, Passes)).collect();
    hold(&table);
}

/// Paths for the client's editing tools, from the project and from beside it. `{n}` is a long detour.
const PATHS_IN: &[&str] = &[
    "{p}/a.txt",
    "{p}",
    "{p}/",
    "{p}/.",
    "{p}/new/deep/x",
    "{p}/a.txt\n",
    "\n{p}/a.txt",
    " {p}/a.txt",
    "{p}/a.txt ",
    "\t{p}/a.txt",
    "{p}//a.txt",
    "/{p}/a.txt",
    "//{p}/a.txt",
    "{p}/./a.txt",
    "{p}/src/../a.txt",
    "{p}/../project/a.txt",
    "{o}/../project/a.txt",
    "{o}/whole/a.txt",
    "{o}/whole/../project/a.txt",
    "{o}/src/x",
    "{o}/src/../a.txt",
    "{o}/deep/d/../main.rs",
    "{o}/dangling",
    "{o}/dangling/x",
    "{o}/no/such/../../whole/a.txt",
    "{o}/{n}../project/a.txt",
    "{p}/{n}a.txt",
    "/proc/self/root{p}/a.txt",
    "/proc/self/root/proc/self/root{p}/a.txt",
    "/proc/thread-self/root{p}/a.txt",
    "/proc/{i}/root{p}/a.txt",
    "{p}/.git/hooks/x",
    "{p}/.git/config",
    "{p}/ünï/x",
    "{p}/a\u{301}",
    "{p}/\u{202e}txt",
    "{p}/*",
    "{p}/$HOME",
    "{p}/-rf",
    "{p}/..x",
    "{p}/...",
    "{s}/../../../project/a.txt",
    "{o}/../out/whole/src/deep/d.rs",
    "~/../project/a.txt",
    "~/../out/whole/a.txt",
    " ~/../project/a.txt",
    "../project/a.txt",
    "whole/a.txt",
    "./whole/a.txt",
    "src/main.rs",
    "dangling",
    "{p}/a.txt\u{0}x",
    "{p}\\a.txt/../project/a.txt/../../project/x",
];
const PATHS_OUT: &[&str] = &[
    "{o}/x",
    "{o}/clone/a.txt",
    "{s}/a.txt",
    "{s}/new/a.txt",
    "{s}/../x",
    "~/notes.md",
    "/dev/null",
    "{p}2/x",
    "{p}-two/x",
    "{p}\u{301}/x",
    "{P}/a.txt",
    "{o}/one/../x",
    "x",
    "./x",
    "two/x",
    "../out/x",
    "{p}/../out/x",
    "{o}/src2/x",
    "file://{o}/x",
    "$HOME/x",
    "",
    "http://example.org{p}/x",
    "~x/y",
    "{o}/deep/../x",
    "\u{0}",
];

#[test]
fn r114_no_spelling_of_a_path_gets_by() {
    let desk = Desk::new();
    let mut ground = Ground::lay(&desk);
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    ground.scratch = scratch(&fork);
    // From beside the project, so that no path is in it by being relative.
    main.set_cwd(desk.path("out"));
    let upper = desk.path("PROJECT").to_string_lossy().into_owned();
    let pid = std::process::id().to_string();
    let mut wrong = Vec::new();
    for (paths, inside) in [(PATHS_IN, true), (PATHS_OUT, false)] {
        for (at, path) in paths.iter().enumerate() {
            let path =
                ground.spelled(path).replace("{n}", &"one/../".repeat(700)).replace("{P}", &upper).replace("{i}", &pid);
            let tool = ["Edit", "Write", "MultiEdit", "NotebookEdit"][at % 4];
            let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
            let ran = fork.pre(tool, json!({key: path, "content": "x", "old_string": "a", "new_string": "b"}));
            let fits = match verdict(&ran) {
                Verdict::Denied(reason) => inside && reason.contains("R114"),
                Verdict::Passed => !inside,
                Verdict::Rewritten(_) => false,
            };
            if !fits {
                wrong.push(format!("{tool} of {:?}: inside is {inside}", path.chars().take(200).collect::<String>()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(desk.errors(), Vec::<String>::new());
}

#[test]
fn r114_no_shape_of_the_input_gets_by() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let file = desk.project().join("a.txt").to_string_lossy().into_owned();
    let away = desk.path("tmp/x").to_string_lossy().into_owned();
    // Whichever path the tool takes, or whatever the rest is.
    for (tool, input) in [
        ("NotebookEdit", json!({"file_path": away, "notebook_path": file})),
        ("NotebookEdit", json!({"file_path": null, "notebook_path": file})),
        ("NotebookEdit", json!({"file_path": ["x"], "notebook_path": file})),
        ("Edit", json!({"file_path": file, "notebook_path": away})),
        ("Edit", json!({"file_path": file, "notebook_path": 1})),
        ("Edit", json!({"file_path": file, "edits": {"a": []}, "old_string": 1})),
        ("Write", json!({"file_path": file, "content": null})),
        ("MultiEdit", json!({"file_path": file, "edits": "x"})),
    ] {
        let shown = input.to_string();
        match verdict(&fork.pre(tool, input)) {
            Verdict::Denied(reason) => assert!(reason.contains("R114"), "{reason}"),
            other => panic!("{tool} {shown}: {other:?}"),
        }
    }
    // What names no file is the client's to refuse.
    for input in [
        json!({}),
        json!(null),
        json!([]),
        json!("x"),
        json!({"file_path": null}),
        json!({"file_path": [file]}),
        json!({"file_path": {"path": file}}),
        json!({"path": file}),
        json!({"FILE_PATH": file}),
        json!(1),
    ] {
        for tool in ["Edit", "Write", "MultiEdit", "NotebookEdit"] {
            let ran = fork.pre(tool, input.clone());
            assert!(matches!(verdict(&ran), Verdict::Passed), "{tool} {input}: {:?}", ran.ran);
        }
    }
    assert_eq!(desk.errors(), Vec::<String>::new());
}

#[test]
fn r115_main_and_a_worker_may_do_all_of_it() {
    let desk = Desk::new();
    let ground = Ground { desk: &desk, scratch: desk.path("tmp/none") };
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, _fork) = follower.fork("look it up");
    let worker = Fork::worker(&main);
    worker.meta();
    for (line, _) in [REDIRECTIONS, WRITERS, SHELL, GIT].concat() {
        let line = ground.spelled(line);
        main.pre_bash(&line).silent();
        worker.passes(&line);
    }
    for path in PATHS_IN {
        let input = json!({"file_path": ground.spelled(path), "content": "x"});
        main.pre_tool("Write", input.clone()).silent();
        assert!(matches!(verdict(&worker.pre("Write", input)), Verdict::Passed), "{path}");
    }
}
