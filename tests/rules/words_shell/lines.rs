//! Command lines by dice, as agents write them and as they could.
//!
//! ```text
//! line     = leading | daily | list, one in six with one or two characters lost, doubled or put in
//! leading  = comment? "leaf" argument* redirection* tail?
//! tail     = ("|" | "&&" | "||" | ";" | "&" | newline) list
//! daily    = a command that agents often write, with "leaf" before, after or in it
//! list     = command ((";" | "&&" | "||" | "|" | "|&" | "&" | newline) command)*
//! command  = simple | "(" list ")" | "{" list "}" | if | while | until | for | for (( | case | select | function
//!          | "!" command | "time" command | "[[" … "]]" | "((" … "))" | coproc
//! simple   = (assignment* word argument* redirection*) | wrapper simple | a text that something runs
//! word     = a plain command, or "leaf": plain, quoted in part, escaped, continued over a line, in `$'…'`, in capitals, by a
//!            path, a glob, a brace, a substitution, a variable (whole, in parts, changed by an operator, an array, a
//!            positional, read, printf -v, IFS, a name reference), an alias, a function, a hash, a copy, a link, another PATH
//! argument = a word, a quoted text (with apostrophes, blanks, umlauts, emoji, the word `leaf`), a variable, arithmetic, a glob,
//!            a brace, `$(list)`, backticks, `<(list)`, a comment
//! wrapper  = env, command, exec, nohup, timeout, nice, setsid, stdbuf, xargs, find -exec, builtin, …
//! text     = a list, quoted in one of four ways, for eval, bash -c, sh -c, trap, source, a shell's heredoc, here-string or
//!            pipe, xargs sh -c, find -exec sh -c, env -S; or a call of leaf for perl, awk and sed
//! ```
//!
//! Left out, as the words rule leaves them out: scripts and makefiles that run `leaf` unnamed, variables that the environment
//! brings along, letters that an interpreter's own functions make, files decoded first and run later. Left out because nobody
//! could run them here: other languages than perl, awk and sed, sudo, ssh, at, and the shells that aren't installed. Left out
//! because they would harm this machine: writing, removing and killing by any name but a few in the scratch directory.

use super::super::model::Dice;

/// Nested deeper than this, a line is only longer.
const DEEPEST: usize = 3;

/// One line; the same for the same seed.
pub fn line(seed: u64) -> String {
    let mut lines = Lines { dice: Dice::new(seed), deep: 0, documents: Vec::new(), before: Vec::new() };
    let line = match lines.dice.roll(10) {
        0..=3 => lines.leading(),
        4..=5 => lines.daily(),
        _ => lines.whole(),
    };
    if lines.dice.one_in(6) { lines.damaged(&line) } else { line }
}

struct Lines {
    dice: Dice,
    deep: usize,
    /// Heredocs whose bodies come after the next newline.
    documents: Vec<String>,
    /// What has to run before the command that is being made.
    before: Vec<String>,
}

impl Lines {
    fn of(&mut self, from: &[&'static str]) -> String {
        self.dice.pick(from).unwrap_or_default().to_owned()
    }

    // -----------------------------------------------------------------------------------------------------------------------
    // Lines

    /// A list with nothing left to come after it.
    fn whole(&mut self) -> String {
        let documents = std::mem::take(&mut self.documents);
        let mut text = self.list();
        text += &self.newline("");
        self.documents = documents;
        text
    }

    /// A newline, with the heredocs that begin there.
    fn newline(&mut self, otherwise: &str) -> String {
        let documents = std::mem::take(&mut self.documents);
        if documents.is_empty() { otherwise.to_owned() } else { format!("\n{}", documents.concat()) }
    }

    fn leading(&mut self) -> String {
        let mut line = self.of(&["", "", "", "", "  ", "# first\n", "\n", "\t"]);
        line += "leaf";
        line += &self.of(&[
            " page state",
            " thread reply ab12cd34:ef567890",
            " thread line ab12cd34",
            " thread list --json",
            "",
        ]);
        for _ in 0..self.dice.roll(3) {
            line += " ";
            line += &self.argument();
        }
        for _ in 0..self.dice.roll(2) {
            line += " ";
            line += &self.redirection();
        }
        let before = std::mem::take(&mut self.before);
        if self.dice.one_in(2) {
            let tail = if self.dice.one_in(2) { self.harmless() } else { self.list() };
            line += &match self.of(&[" | ", " && ", " || ", "; ", " & ", "\n", " |& "]).as_str() {
                "\n" => self.newline("\n"),
                joined => joined.to_owned(),
            };
            line += &tail;
        }
        line += &self.newline("");
        if before.is_empty() { line } else { format!("{}\n{line}", before.join("; ")) }
    }

    fn daily(&mut self) -> String {
        let reply = "leaf thread reply ab12cd34:ef567890";
        let said = self.said();
        let quoted = self.quoted(&said);
        match self.dice.roll(22) {
            0 => format!("git log --oneline -3 2>/dev/null; {reply} {quoted}"),
            1 => format!("cd src && {reply} {quoted}"),
            2 => format!("{reply} {quoted} && git status --short 2>/dev/null"),
            3 => "leaf page state --json | head -c 200".to_owned(),
            4 => format!("{reply} <<'END'\n{said}\nEND"),
            5 => format!("cat <<'END' | {reply} -\n{said}\nEND"),
            6 => format!("cat > note.txt <<'END'\n{said}\nEND\n{reply} --file note.txt"),
            7 => format!("{reply} \"$(cat notes.md)\""),
            8 => format!("{reply} --file notes.md; echo $?"),
            9 => format!("wc -l notes.md && {reply} \"it's done\""),
            10 => "for t in ab12cd34 cd34ef56; do leaf thread show $t; done".to_owned(),
            11 => format!("echo {quoted} | {reply} -"),
            12 => format!("grep -rn {quoted} . | head -5"),
            13 => format!("git commit -m {quoted} 2>/dev/null || true"),
            14 => format!("git commit -m \"$(cat <<'END'\n{said}\nEND\n)\" 2>/dev/null; git log -1 2>/dev/null"),
            15 => format!("cat > n.md <<'END'\n{said}\nEND\nwc -w n.md"),
            16 => format!("if grep -q {quoted} notes.md; then echo yes; else echo no; fi"),
            17 => "cd src/leaf && ls && cd - >/dev/null".to_owned(),
            18 => format!("sed -n '/leaf/p' notes.md | sort | uniq -c; echo {quoted}"),
            19 => "find . -name '*leaf*' -type f | xargs wc -l | tail -1".to_owned(),
            20 => format!("X={quoted}; echo \"$X\" | wc -c"),
            _ => format!("perl -ne 'print if /leaf/' notes.md; echo {quoted}"),
        }
    }

    /// The same line with a character or two lost, doubled or put in. Never `>` nor `/`: what is written stays where it is.
    fn damaged(&mut self, line: &str) -> String {
        let mut chars: Vec<char> = line.chars().collect();
        for _ in 0..=self.dice.roll(2) {
            let at = self.dice.roll(chars.len());
            match (self.dice.roll(3), chars.get(at).copied()) {
                (0, Some(c)) if !"<>&/~ ".contains(c) => {
                    chars.remove(at);
                }
                (1, Some(c)) if c != '>' => chars.insert(at, c),
                _ => {
                    let put = self.of(&[
                        "'", "\"", "\\", " ", "$", "(", ")", "{", "}", "`", ";", "|", "&", "\n", "#", "*", "?", "[",
                        "]", "=", "!", "-", "\r", "\u{a0}", "ü", "\\\n", "$'",
                    ]);
                    put.chars().rev().for_each(|c| chars.insert(at.min(chars.len()), c));
                }
            }
        }
        chars.into_iter().collect()
    }

    fn list(&mut self) -> String {
        let mut text = String::new();
        for n in 0..=self.dice.roll(3) {
            let before = std::mem::take(&mut self.before);
            let command = self.command();
            let own = std::mem::replace(&mut self.before, before);
            if n > 0 {
                // What stands before and after a setting of variables must be a list of its own.
                let joined = if own.is_empty() {
                    self.of(&["; ", "; ", " && ", " && ", " || ", " | ", " |& ", " & ", "\n"])
                } else {
                    self.of(&["; ", "\n"])
                };
                text += &if joined == "\n" { self.newline("\n") } else { joined };
            }
            for setting in own {
                text += &setting;
                // An alias holds from the next line on.
                text +=
                    &if setting.starts_with("alias") || self.dice.one_in(4) { self.newline("\n") } else { "; ".into() };
            }
            text += &command;
        }
        text
    }

    fn command(&mut self) -> String {
        if self.deep >= DEEPEST || !self.dice.one_in(4) {
            return self.simple();
        }
        self.deep += 1;
        let text = match self.dice.roll(18) {
            0 => format!("({})", self.inner()),
            1 => format!("( {} ) {}", self.inner(), self.redirection()),
            2 => format!("{{ {}; }}", self.inner()),
            3 => format!("{{ {}\n}} {}", self.inner(), self.redirection()),
            4 => format!("if {}; then {}; else {}; fi", self.simple(), self.inner(), self.inner()),
            5 => format!("if {}\nthen\n{}\nelif {}; then :; fi", self.inner(), self.inner(), self.inner()),
            6 => format!("while {}; do {}; break; done", self.simple(), self.inner()),
            7 => format!("until {}; do {}; break; done", self.simple(), self.inner()),
            8 => format!("for v in {} {}; do {}; $v; done", self.argument(), self.argument(), self.inner()),
            9 => format!("for v in {} {}\ndo {}\n\"$v\" page\ndone", self.spelt(), self.argument(), self.inner()),
            10 => format!("for ((i=0; i<2; i++)); do {}; done", self.inner()),
            11 => format!(
                "case {} in {}) {};; (x|*) {} ;; esac",
                self.argument(),
                self.argument(),
                self.inner(),
                self.inner()
            ),
            12 => format!("g() {{ {}; }}; g {}", self.inner(), self.argument()),
            13 => format!("function g {{ {}\n}}\ng {}", self.inner(), self.argument()),
            14 => format!("! {}", self.simple()),
            15 => format!("time {}{}", self.of(&["", "-p "]), self.simple()),
            16 => {
                let operator = self.of(&["==", "=~", "!=", "<", "-nt"]);
                format!("[[ {} {operator} {} ]] && {}", self.argument(), self.argument(), self.simple())
            }
            _ => match self.dice.roll(5) {
                0 => format!("(( {} )); {}", self.arithmetic(), self.simple()),
                1 => format!("select v in {} b; do {}; $v; break; done <<< 1", self.spelt(), self.inner()),
                2 => format!("coproc {}; wait", self.simple()),
                3 => format!("coproc g {{ {}; }}; cat <&\"${{g[0]}}\"; wait", self.inner()),
                _ => format!("( ( {} ); {} )", self.inner(), self.inner()),
            },
        };
        self.deep -= 1;
        text
    }

    /// A list inside something that ends: with what it needs before, and its heredocs.
    fn inner(&mut self) -> String {
        let (documents, before) = (std::mem::take(&mut self.documents), std::mem::take(&mut self.before));
        let mut text = self.list();
        let ends = self.newline("");
        // A separator can't follow a newline everywhere: `true` can.
        text += &if ends.is_empty() { ends } else { format!("{ends}true") };
        (self.documents, self.before) = (documents, before);
        text
    }

    // -----------------------------------------------------------------------------------------------------------------------
    // Simple commands

    fn simple(&mut self) -> String {
        match self.dice.roll(20) {
            0..=7 => self.harmless(),
            8..=11 => self.named(),
            12..=14 => self.wrapped(),
            15..=17 => self.text(),
            18 => format!("{} {}", self.assignment(), self.harmless()),
            _ => self.assignment(),
        }
    }

    fn harmless(&mut self) -> String {
        let command = self.of(&[
            "echo",
            "echo",
            "echo",
            "printf '%s\\n'",
            "true",
            ":",
            "false",
            "cat",
            "grep -c leaf",
            "grep -rn",
            "ls",
            "test -f",
            "[ -d src/leaf ] ||",
            "head -2",
            "wc -l",
            "sort",
            "sed -n p",
            "sed -i s/leaf/node/",
            "tr a-z b-za",
            "cd",
            "read -r x",
            "set -e --",
            "git log --oneline",
            "git status",
            "git commit -qm",
            "find . -name",
            "command -v",
            "which",
            "type",
            "printf -v x",
            "export x=1",
            "declare -p",
            "local",
            "unset",
            "awk /leaf/",
            "perl -ne print",
            "mkdir -p made",
            "touch made.txt",
            "tee made.txt",
            "basename",
            "cut -c1-4",
            "rev",
            "seq",
            "date +%s",
            "let",
            "shift",
            "wait",
            "pwd",
            "hash",
            "umask",
            "jobs",
            "exit",
            "mapfile -t m",
            "getopts x",
            "enable",
            "env",
            "xargs",
            "xargs -n1 echo",
            "nohup ls",
            "unknown-command",
            "./count.sh",
            "leaflet",
            "leaf-threads",
            "leaf.rs",
            "src/leaf/x",
        ]);
        let mut text = command;
        for _ in 0..self.dice.roll(4) {
            text += " ";
            text += &self.argument();
        }
        if self.dice.one_in(4) {
            text += " ";
            text += &self.redirection();
        }
        text
    }

    /// `leaf` as a command, in one of its spellings.
    fn named(&mut self) -> String {
        let mut text = String::new();
        if self.dice.one_in(8) {
            text += &self.assignment();
            text += " ";
        }
        if self.dice.one_in(10) {
            text += &self.redirection();
            text += " ";
        }
        text += &self.spelt();
        text += &self.of(&["", " page state", " thread line ab12cd34", " hook"]);
        for _ in 0..self.dice.roll(2) {
            text += " ";
            text += &self.argument();
        }
        if self.dice.one_in(4) {
            text += " ";
            text += &self.redirection();
        }
        text
    }

    fn wrapped(&mut self) -> String {
        let command = match self.dice.roll(4) {
            0 if self.deep < DEEPEST => {
                self.deep += 1;
                let text = self.wrapped();
                self.deep -= 1;
                text
            }
            0 | 1 => self.harmless(),
            2 => self.named(),
            _ => format!("{} page", self.spelt()),
        };
        let wrapper = self.of(&[
            "env",
            "env A=1",
            "env -u A",
            "env -i",
            "env --",
            "/usr/bin/env",
            "command",
            "command -p",
            "command --",
            "builtin",
            "exec",
            "exec -a x",
            "nohup",
            "timeout 2",
            "timeout -k 1 2",
            "timeout -s KILL 2s",
            "nice",
            "nice -n 1",
            "setsid -w",
            "stdbuf -oL",
            "ionice -c3",
            "xargs",
            "xargs -r",
            "xargs -0",
            "xargs -I{}",
            "xargs -I % ",
            "xargs -n 1",
            "xargs -t -P2",
            "time",
            "eval",
            "trap",
            "bash -c",
            "sh -c",
            "noglob",
            "nocorrect",
            "flock lock",
            "strace -f",
            "unshare",
            "chroot .",
            "script -qc",
            "watch -n1",
            "prlimit",
            "taskset 1",
            "echo",
            "coproc",
            "!",
            "then",
            "do",
            "[[",
            "sudo -n",
            "A=1",
            "-",
            "\\env",
            "'command'",
            "e\"x\"ec",
            "$A",
            "${B}",
            "\"$C\"",
        ]);
        match self.dice.roll(8) {
            0 => format!("echo {} | {wrapper} {command}", self.argument()),
            1 => format!("printf '%s ' {} | {wrapper} {command}", self.spelt()),
            2 => format!("find . -maxdepth 0 -exec {command} {{}} \\;"),
            3 => format!("find ~/bin -name 'le*' -exec {wrapper} {{}} page {} \\;", self.argument()),
            4 => format!("{} <<< {} {wrapper} {command}", self.of(&["", "xargs"]), self.argument()),
            _ => format!("{wrapper} {command}"),
        }
    }

    /// A text that something runs, or may.
    fn text(&mut self) -> String {
        let inside = if self.deep < DEEPEST {
            self.deep += 1;
            let text = self.inner();
            self.deep -= 1;
            text
        } else {
            "leaf page state".to_owned()
        };
        let inside = if self.dice.one_in(3) { format!("leaf thread line {}", self.argument()) } else { inside };
        let text = self.quoted(&inside);
        match self.dice.roll(26) {
            0 => format!("bash -c {text}"),
            1 => format!("bash -ec {text} {}", self.argument()),
            2 => format!("sh -c {text} sh {}", self.spelt()),
            3 => format!("eval {text}"),
            4 => format!("eval {inside}"),
            5 => format!("trap {text} EXIT"),
            6 => format!("trap {text} DEBUG; true"),
            7 => format!(
                "echo {text} | {}",
                self.of(&["sh", "bash", "bash -s", "sh -", "bash -s x", "env bash", "tee made.txt | sh"])
            ),
            8 => format!("source <(echo {text})"),
            9 => format!("bash <<< {text}"),
            10 | 11 => {
                let end = self.of(&["'E'", "\"E\"", "\\E", "E"]);
                self.documents.push(format!("{inside}\nE\n"));
                format!("{} <<{end}", self.of(&["bash", "sh", "bash -s", "cat", "cat | sh", "xargs -0 sh -c", "perl"]))
            }
            12 => format!("echo {text} | xargs -0 sh -c"),
            13 => format!("find . -maxdepth 0 -exec sh -c {text} \\;"),
            14 => format!("env -S {text}"),
            15 => format!("timeout 2 bash -c {text}"),
            16 => format!("x={text}; eval \"$x\""),
            17 => format!("x={text}; bash -c \"$x\""),
            18 => format!(
                "echo {text} > made.sh; {}",
                self.of(&["sh made.sh", ". ./made.sh", "cat made.sh", "bash < made.sh"])
            ),
            19 => format!("sh -c '$0 \"$@\"' {} page", self.spelt()),
            20 => format!("perl -e 'system {text}'").replace("''", "'"),
            21 => format!(
                "perl -e {}",
                self.of(&[
                    "'system \"leaf\", \"page\"'",
                    "'print \"leaf\"'",
                    "'exec(\"le\".\"af page\")'",
                    "'print `leaf`'",
                    "'print 1'"
                ])
            ),
            22 => format!(
                "awk {}",
                self.of(&[
                    "'BEGIN { system(\"leaf page\") }'",
                    "'BEGIN { print \"leaf\" | \"sh\" }'",
                    "'/leaf/ { print }' notes.md",
                    "'BEGIN { print \"leaf\" }'"
                ])
            ),
            23 => format!(
                "echo x | sed {}",
                self.of(&["'s/x/leaf page/e'", "'1e leaf page'", "'s/x/leaf/'", "s/x/leaf/g", "'s|x|le|;s|le|leaf|e'"])
            ),
            24 => format!("alias {}; {inside}", self.quoted(&format!("ls={inside}"))),
            _ => format!("{}{text} git log", self.of(&["PAGER=", "GIT_EDITOR=", "BASH_ENV=", "PS4=", "A="])),
        }
    }

    fn assignment(&mut self) -> String {
        match self.dice.roll(12) {
            0 => format!("x={}", self.argument()),
            1 => format!("x={}", self.spelt()),
            2 => "a=le b=af".to_owned(),
            3 => format!("A={} B=2", self.argument()),
            4 => format!("x+={}", self.argument()),
            5 => format!("x=({} {})", self.argument(), self.argument()),
            6 => format!("x[{}]=1", self.argument()),
            7 => "PATH=~/bin:$PATH".to_owned(),
            8 => "LEAF_SESSION=x".to_owned(),
            9 => "IFS=,".to_owned(),
            10 => format!("export x={}", self.argument()),
            _ => "v=1".to_owned(),
        }
    }

    fn redirection(&mut self) -> String {
        match self.dice.roll(14) {
            0 => "2>&1".to_owned(),
            1 => ">/dev/null".to_owned(),
            2 => "> out.txt".to_owned(),
            3 => ">>out.txt 2>&1".to_owned(),
            4 => "&>out.txt".to_owned(),
            5 => "< notes.md".to_owned(),
            6 => "2>/dev/null".to_owned(),
            7 => format!("<<< {}", self.argument()),
            8 => format!("< <({})", self.nested()),
            9 => format!("> >({})", self.nested()),
            10 => "3>&1 4<&0".to_owned(),
            _ => {
                let end = self.of(&["'END'", "'END'", "\"END\"", "\\END", "END", "-'END'", "E\"N\"D"]);
                let body = match self.dice.roll(6) {
                    0 => self.whole(),
                    1 => format!("$({})", self.nested()),
                    2 => format!("{}\n`leaf page`", self.said()),
                    _ => self.said(),
                };
                let tab = if end.starts_with('-') { "\t" } else { "" };
                self.documents.push(format!("{tab}{body}\n{tab}END\n"));
                format!("<<{end}")
            }
        }
    }

    // -----------------------------------------------------------------------------------------------------------------------
    // Words

    fn nested(&mut self) -> String {
        if self.deep >= DEEPEST {
            return self.of(&["leaf page state", "echo leaf", "true"]);
        }
        self.deep += 1;
        let text = if self.dice.one_in(2) { self.harmless() } else { self.inner() };
        self.deep -= 1;
        text
    }

    fn argument(&mut self) -> String {
        match self.dice.roll(26) {
            0..=5 => self.of(&[
                "a",
                "notes.md",
                "leaf.rs",
                "src/leaf",
                "src/leaf/mod.rs",
                "-n",
                "--all",
                "x=1",
                "page",
                "leaf-threads",
                "leaflet",
                "/src/leaf",
                "a#b",
                "ü",
                "🍃",
                "--",
                "-",
                "{}",
                "!",
                "^x",
                "~",
                "1",
                "%s",
                "-e",
            ]),
            6 => self.of(&["leaf", "leaf", "leaf page", "leaf,", "xleaf", "--leaf", "-cleaf", "leaf=1", "run=leaf"]),
            7..=10 => {
                let said = self.said();
                self.quoted(&said)
            }
            11 => self.of(&[
                "$x",
                "\"$x\"",
                "${x}",
                "$1",
                "\"$@\"",
                "$*",
                "$?",
                "$#",
                "$$",
                "$_",
                "\"$HOME\"",
                "$v",
                "${a}${b}",
                "$a$b",
                "$-",
                "$!",
            ]),
            12 => self.of(&[
                "${x:-leaf}",
                "${x:=leaf}",
                "${x#a}",
                "${x%f}",
                "${#x}",
                "${x/a/b}",
                "${x[@]}",
                "${!x}",
                "${x:1:2}",
                "${x^^}",
                "\"${x:-'}'}\"",
                "${x:-'}'}",
                "${x:+\"a b\"}",
                "${x@Q}",
            ]),
            13 => format!("$(({}))", self.arithmetic()),
            14 => format!("\"$(({}))\"", self.arithmetic()),
            15 => self.of(&[
                "*.md",
                "?",
                "[a-z]*",
                "src/*",
                "l*",
                "~/bin/*",
                "*leaf*",
                "**",
                "[!x]*",
                "@(leaf|x)",
                "!(x)",
            ]),
            16 => self.of(&[
                "{a,b}",
                "{1..3}",
                "l{e,}af",
                "{leaf,x}",
                "a{b",
                "{a}",
                "x{,.bak}",
                "{a,b{c,d}}",
                "{\"a\",'b'}",
            ]),
            17 | 18 => format!("$({})", self.nested()),
            19 | 20 => format!("\"$({})\"", self.nested()),
            21 => {
                let text = self.nested().replace('\\', "\\\\").replace('`', "\\`").replace('$', "\\$");
                format!("`{text}`")
            }
            22 => format!("<({})", self.nested()),
            23 => self.of(&["# a comment", "#leaf", "# it's leaf\n", "\\\n", "\\#", "'#'"]),
            24 => format!("\"a ${{x:-$({})}} b\"", self.nested()),
            _ => self.spelt(),
        }
    }

    fn arithmetic(&mut self) -> String {
        match self.dice.roll(7) {
            0 => format!("$({}; echo 1) + 1", self.nested()),
            1 => format!("x[{}]", self.argument()),
            _ => self.of(&["1 + 1", "x << 2", "(1+2)*3", "x = 2", "a ? b : c", "leaf", "x[0]++", "16#ff"]),
        }
    }

    /// What is said in a text.
    fn said(&mut self) -> String {
        let mut words = Vec::new();
        for _ in 0..=self.dice.roll(4) {
            words.push(self.of(&[
                "leaf",
                "leaf",
                "a leaf",
                "it's",
                "don't",
                "the leaf's edge",
                "\"quoted\"",
                "done.",
                "5 > 3",
                "(see src/leaf)",
                "`leaf hook`",
                "$HOME",
                "$(leaf page)",
                "a; b",
                "x && leaf",
                "x | leaf y",
                "schön",
                "🍃",
                "\\n",
                "100%",
                "#1",
                "two\nlines",
                "leaf thread reply x",
                "leaf.",
                "leaves",
                "c:\\leaf",
                "* item",
                "[x]",
                "{a,b}",
                "!",
                "a\\",
                "END.",
                "-leaf-",
                "~/bin/leaf",
                "\tleaf",
            ]));
        }
        words.join(" ")
    }

    /// A word that stands for this text.
    fn quoted(&mut self, text: &str) -> String {
        match self.dice.roll(5) {
            0 | 1 => format!("'{}'", text.replace('\'', "'\\''")),
            2 => {
                let escaped: String =
                    text.chars().flat_map(|c| "\"\\$`".contains(c).then_some('\\').into_iter().chain([c])).collect();
                format!("\"{escaped}\"")
            }
            3 => format!("$'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")),
            _ => {
                let mut out = String::new();
                for c in text.chars() {
                    match c {
                        '\n' => out += "'\n'",
                        c if c.is_alphanumeric() => out.push(c),
                        c => out.extend(['\\', c]),
                    }
                }
                out
            }
        }
    }

    /// A word that is `leaf` once what it needs has run before.
    fn spelt(&mut self) -> String {
        let needs = |lines: &mut Lines, setting: &str, word: &str| {
            lines.before.push(setting.to_owned());
            word.to_owned()
        };
        match self.dice.roll(34) {
            0..=4 => "leaf".to_owned(),
            5 | 6 => {
                let at = self.dice.roll(4);
                let (head, tail) = "leaf".split_at(at);
                match self.dice.roll(7) {
                    0 => format!("{head}\\{tail}"),
                    1 => format!("{head}''{tail}"),
                    2 => format!("{head}\"{tail}\""),
                    3 => format!("'{head}'{tail}"),
                    4 => format!("{head}\\\n{tail}"),
                    5 => format!("\"{head}\\\n{tail}\""),
                    _ => format!("{head}$'{tail}'"),
                }
            }
            7 => self.of(&["$'\\x6ceaf'", "$'\\154eaf'", "le$'\\u0061'f", "$'leaf\\0x'", "$\"leaf\"", "$'le\\141f'"]),
            8 | 9 => self.of(&[
                "~/bin/leaf",
                "$HOME/bin/leaf",
                "\"$HOME\"/bin/leaf",
                "../bin/leaf",
                "\"$HOME/bin/leaf\"",
                "~/bin/../bin/le''af",
                "~+/../bin/leaf",
                "${HOME}/bin/leaf",
            ]),
            10 => self.of(&["~/bin/l?af", "~/bin/le*", "~/bin/[l]eaf", "../b*/leaf", "../bin/*", "~/bin/+(leaf)"]),
            11 => self.of(&["{leaf,page}", "l{e,}af", "~/bin/{leaf,x}", "{le,x}af", "{l..l}eaf"]),
            12 => self.of(&["LEAF", "Leaf", "=leaf"]),
            13 | 14 => self.of(&[
                "$(echo leaf)",
                "`echo leaf`",
                "$(printf le)af",
                "$(command -v leaf)",
                "le$(echo af)",
                "$(rev <<< fael)",
                "\"$(echo leaf)\"",
                "leaf$(true)",
                "$(which leaf)",
                "le`true`af",
                "$(echo le; echo af)",
                "$(<name)",
            ]),
            15 => {
                let text = self.quoted("leaf");
                let word = self.of(&["$x", "${x}", "\"$x\""]);
                needs(self, &format!("x={text}"), &word)
            }
            16 => needs(self, "a=le b=af", "$a$b"),
            17 => needs(self, "b=af", "le$b"),
            18 => needs(self, "a=le; c=", "${a}af$c"),
            19 => {
                let (setting, word) = self
                    .dice
                    .pick(&[
                        ("x=LEAF", "${x,,}"),
                        ("x=xleaf", "${x#x}"),
                        ("x=lbaf", "${x/b/e}"),
                        ("x=leafy", "${x%y}"),
                        ("x=aleafb", "${x:1:4}"),
                        (":", "${u:-leaf}"),
                        (":", "${u:=leaf}"),
                        ("x=1", "${x:+leaf}"),
                        ("x=le", "${x}af"),
                        ("x=leaf y=x", "${!y}"),
                        ("x=leaf; declare -n y=x", "$y"),
                        ("x='leaf page'", "$x"),
                        ("x=leaf,page IFS=,", "$x"),
                        ("x=le; x+=af", "$x"),
                        ("x='l e a f'", "${x// }"),
                        ("x=leaf", "${x@E}"),
                        ("x='\\154eaf'", "${x@E}"),
                        ("x=leaf page", "$x"),
                        ("x=leaf; x=y", "$x"),
                        ("x=y; x=leaf", "$x"),
                        ("unset x", "leaf$x"),
                        ("x=(le af)", "${x[0]}${x[1]}"),
                        ("x=af", "le${x}"),
                        ("printf -v x '\\x6ceaf'", "$x"),
                        ("x=$'\\x6ceaf'", "$x"),
                    ])
                    .unwrap_or_default();
                needs(self, setting, word)
            }
            20 => needs(self, "x=(leaf page)", "\"${x[@]}\""),
            21 => needs(self, "set -- leaf page", "\"$@\""),
            22 => needs(self, "set -- le af", "$1$2"),
            23 => needs(self, "read -r x <<< leaf", "$x"),
            24 => needs(self, "printf -v x %s%s le af", "$x"),
            25 => needs(self, "read -r x y <<< 'le af'", "$x$y"),
            26 => needs(self, "mapfile -t x <<< leaf", "$x"),
            27 => {
                self.before.push("shopt -s expand_aliases".to_owned());
                needs(self, "alias k=leaf", "k")
            }
            28 => needs(self, "f() { leaf \"$@\"; }", "f"),
            29 => needs(self, "f() { \"$@\"; }", "f leaf"),
            30 => needs(self, "hash -p ~/bin/leaf h", "h"),
            31 => {
                let (setting, word) = self
                    .dice
                    .pick(&[
                        ("cp ~/bin/leaf other", "./other"),
                        ("ln -s ~/bin/leaf other", "./other"),
                        ("ln -s ~/bin made", "made/leaf"),
                        ("cp ../bin/le* other", "./other"),
                        ("cd ~/bin", "./leaf"),
                        ("ln -s ~/bin/leaf other; PATH=.:$PATH", "other"),
                        ("echo leaf > name", "$(<name)"),
                        ("echo leaf > name", "$(cat name)"),
                        ("mkdir -p d; cp ~/bin/leaf d/x; PATH=d", "x"),
                    ])
                    .unwrap_or_default();
                needs(self, setting, word)
            }
            32 => needs(self, "echo leaf", "$_"),
            _ => needs(self, "command_not_found_handle() { leaf \"$@\"; }", "nothing"),
        }
    }
}
