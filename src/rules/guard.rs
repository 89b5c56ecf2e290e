//! What a fork may change: nothing under the session's project directory, by the client's editing tools (R114) or by plain Bash
//! (R115). Paths are resolved as the kernel does; what the disk knows is asked of [`Files`], so that the rules run without one.

mod args;
mod git;
mod programs;
mod shell;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

pub use shell::{Change, changes};

/// The kernel takes no longer path, bytes.
const LONGEST: usize = 4096;

/// More links than this on one way are a loop, as the kernel counts them.
const LINKS: usize = 40;

/// Which file a path leads to, whatever its names: device and inode.
pub type Identity = (u64, u64);

/// What the disk tells of a path.
pub trait Files {
    /// Returns where a symlink points; `None` where the path is none, or is not there.
    fn link(&self, path: &Path) -> Option<PathBuf>;
    /// Returns which file stands there, links followed; `None` where there is none, or where the file system doesn't tell.
    fn identity(&self, path: &Path) -> Option<Identity>;
    /// Whether a directory stands there, links followed.
    fn is_directory(&self, path: &Path) -> bool;
    /// Returns the text of a small file, as git keeps its own; `None` where it can't be read.
    fn text(&self, path: &Path) -> Option<String>;
}

/// What is guarded, and for whom.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// The session's project directory, under every name that it is known by.
    pub projects: Vec<PathBuf>,
    /// The scratch directory of the fork's turn: always its own.
    pub scratch: Option<PathBuf>,
    /// Where the agent works.
    pub cwd: PathBuf,
    /// The user's home directory: what `~` stands for.
    pub home: Option<PathBuf>,
}

/// A path that a fork may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Where it lies once resolved.
    pub path: PathBuf,
    /// The project directory that it lies under.
    pub project: PathBuf,
}

impl Ground {
    /// R114: the place in the project that an editing tool would write to by this path, if it is one. A client takes `..` out of
    /// a path before anyone looks at links, the kernel after; where either leads into the project, the path does.
    pub fn edit(&self, files: &dyn Files, path: &Path) -> Option<Guarded> {
        // A client may take off blanks around it.
        let trimmed = path.to_str().map_or(path, |text| Path::new(text.trim()));
        self.leads_in(files, path).or_else(|| self.leads_in(files, trimmed))
    }

    fn leads_in(&self, files: &dyn Files, path: &Path) -> Option<Guarded> {
        let path = self.absolute(path);
        self.guarded(files, &without_dots(&path)).or_else(|| self.guarded(files, &path))
    }

    /// Returns the place that a write to this absolute path would change, if it lies in the project and is not the fork's own.
    pub fn guarded(&self, files: &dyn Files, path: &Path) -> Option<Guarded> {
        self.under(files, &resolve(files, path)?)
    }

    /// Tells whether a resolved path lies under the project and is not the fork's own.
    pub fn under(&self, files: &dyn Files, path: &Path) -> Option<Guarded> {
        if self.is_own(files, path) {
            return None;
        }
        let project = self.projects.iter().find(|project| lies_under(files, path, project))?;
        Some(Guarded { path: path.to_path_buf(), project: project.clone() })
    }

    /// Returns the path as one from the root: `~` is the home directory, any other relative one begins where the agent works.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(path),
        }
    }

    /// The scratch directory is the fork's as leaf made it: a link put in its place is resolved to where it leads, and is not.
    fn is_own(&self, files: &dyn Files, path: &Path) -> bool {
        let Some(scratch) = &self.scratch else { return false };
        let (Some(of_user), Some(turn)) = (scratch.parent(), scratch.file_name()) else { return false };
        let (Some(temporary), Some(user)) = (of_user.parent(), of_user.file_name()) else { return false };
        resolve(files, temporary).is_some_and(|temporary| path.starts_with(temporary.join(user).join(turn)))
    }
}

/// Whether a resolved path lies under a directory: by its names, or because a directory above it is the same one under another
/// name (a file system that folds case, a bind mount).
fn lies_under(files: &dyn Files, path: &Path, directory: &Path) -> bool {
    let directory = resolve(files, directory).unwrap_or_else(|| directory.to_path_buf());
    if path.starts_with(&directory) {
        return true;
    }
    let Some(own) = files.identity(&directory) else { return false };
    path.ancestors().any(|above| files.identity(above) == Some(own))
}

/// Returns where an absolute path leads, links followed and `..` taken as the kernel does; what is not there yet is taken by its
/// name. `None` where links lead in a circle, and for a path that is too long.
pub fn resolve(files: &dyn Files, path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() >= LONGEST {
        return None;
    }
    let mut done = PathBuf::from("/");
    let mut rest = components(path);
    let mut links = 0;
    while let Some(next) = rest.pop_front() {
        match next {
            Step::Root => done = PathBuf::from("/"),
            Step::Up => drop(done.pop()),
            Step::Down(name) => {
                done.push(name);
                if let Some(target) = files.link(&done) {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    done.pop();
                    for step in components(&target).into_iter().rev() {
                        rest.push_front(step);
                    }
                }
            }
        }
    }
    Some(done)
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

fn components(path: &Path) -> VecDeque<Step> {
    path.components()
        .filter_map(|component| match component {
            Component::RootDir => Some(Step::Root),
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::Down(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Takes `..` out of a path by its names alone.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut done = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(done.pop()),
            other => done.push(other),
        }
    }
    done
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use proptest::prelude::*;

    use super::*;

    /// A disk of links alone, which may fold the case of its names.
    #[derive(Default)]
    struct Told {
        links: BTreeMap<PathBuf, PathBuf>,
        files: BTreeMap<PathBuf, u64>,
        folds: bool,
    }

    impl Told {
        fn name(&self, path: &Path) -> PathBuf {
            if self.folds { path.to_string_lossy().to_lowercase().into() } else { path.to_path_buf() }
        }
    }

    impl Files for Told {
        fn link(&self, path: &Path) -> Option<PathBuf> {
            self.links.get(&self.name(path)).cloned()
        }

        fn identity(&self, path: &Path) -> Option<Identity> {
            let path = resolve(self, path)?;
            self.files.get(&self.name(&path)).map(|inode| (1, *inode))
        }

        fn is_directory(&self, path: &Path) -> bool {
            self.identity(path).is_some()
        }

        fn text(&self, _: &Path) -> Option<String> {
            None
        }
    }

    fn ground(project: &str) -> Ground {
        Ground { projects: vec![project.into()], cwd: project.into(), ..Ground::default() }
    }

    #[test]
    fn r114_a_file_system_that_folds_case_has_one_project_under_all_its_names() {
        let mut files = Told { files: BTreeMap::from([("/w".into(), 2), ("/w/p".into(), 3)]), ..Told::default() };
        assert_eq!(ground("/w/p").edit(&files, Path::new("/W/P/new/x")), None);
        files.folds = true;
        assert!(ground("/w/p").edit(&files, Path::new("/W/P/new/x")).is_some());
        assert_eq!(ground("/w/p").edit(&files, Path::new("/W/Q/x")), None);
    }

    #[test]
    fn r114_a_bind_mount_of_the_project_is_the_project() {
        let files = Told { files: BTreeMap::from([("/w/p".into(), 3), ("/mnt/b".into(), 3)]), ..Told::default() };
        assert!(ground("/w/p").edit(&files, Path::new("/mnt/b/src/x")).is_some());
        assert_eq!(ground("/w/p").edit(&files, Path::new("/mnt/x")), None);
    }

    #[test]
    fn r114_the_scratch_directory_is_own_only_as_leaf_made_it() {
        let mut files = Told::default();
        let ground = Ground { scratch: Some("/p/tmp/leaf-1/aa".into()), ..ground("/p") };
        assert_eq!(ground.edit(&files, Path::new("/p/tmp/leaf-1/aa/x")), None);
        assert!(ground.edit(&files, Path::new("/p/tmp/leaf-1/bb/x")).is_some());
        for at in ["/p/tmp/leaf-1/aa", "/p/tmp/leaf-1"] {
            files.links = BTreeMap::from([(at.into(), "/p/src".into())]);
            assert!(ground.edit(&files, Path::new("/p/tmp/leaf-1/aa/x")).is_some(), "{at}");
            assert!(ground.edit(&files, Path::new("/p/src/x")).is_some(), "{at}");
        }
        // Where the temporary directory itself is a link, it is the same place.
        files.links = BTreeMap::from([("/p/tmp".into(), "/p/var".into())]);
        assert_eq!(ground.edit(&files, Path::new("/p/var/leaf-1/aa/x")), None);
    }

    /// The disk as it is.
    pub(in crate::rules::guard) struct Real;

    impl Files for Real {
        fn link(&self, path: &Path) -> Option<PathBuf> {
            fs::read_link(path).ok()
        }

        fn identity(&self, path: &Path) -> Option<Identity> {
            fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
        }

        fn is_directory(&self, path: &Path) -> bool {
            path.is_dir()
        }

        fn text(&self, path: &Path) -> Option<String> {
            fs::read_to_string(path).ok()
        }
    }

    #[derive(Clone, Debug)]
    enum Made {
        Directory(Vec<usize>),
        Link(Vec<usize>, bool, Vec<usize>),
    }

    const NAMES: [&str; 6] = ["a", "b", "c", "..", ".", "p"];

    fn path(names: &[usize]) -> PathBuf {
        names.iter().map(|name| NAMES[*name]).collect()
    }

    fn made() -> impl Strategy<Value = Vec<Made>> {
        let names = || prop::collection::vec(0..NAMES.len(), 1..5);
        prop::collection::vec(
            prop_oneof![
                names().prop_map(Made::Directory),
                (names(), any::<bool>(), names()).prop_map(|(at, whole, to)| Made::Link(at, whole, to)),
            ],
            0..14,
        )
    }

    /// A tree of directories and links in a directory of its own, three levels deep so that `..` stays in it.
    fn plant(root: &Path, made: &[Made]) {
        fs::create_dir_all(root.join("p")).unwrap();
        for made in made {
            // What can't be made is not there.
            match made {
                Made::Directory(at) => drop(fs::create_dir_all(root.join(path(at)))),
                Made::Link(at, whole, to) => {
                    let to = if *whole { root.join(path(to)) } else { path(to) };
                    drop(std::os::unix::fs::symlink(to, root.join(path(at))));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn r114_a_path_that_is_there_resolves_as_the_kernel_says(made in made(), asked in prop::collection::vec(0..NAMES.len(), 1..7)) {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap().join("x/y/z");
            plant(&root, &made);
            let asked = root.join(path(&asked));
            if let Ok(kernel) = asked.canonicalize() {
                prop_assert_eq!(resolve(&Real, &asked), Some(kernel.clone()));
                let inside = kernel.starts_with(root.join("p").canonicalize().unwrap());
                let ground = Ground { projects: vec![root.join("p")], cwd: root.clone(), ..Ground::default() };
                prop_assert_eq!(ground.guarded(&Real, &asked).is_some(), inside);
                if inside {
                    prop_assert!(ground.edit(&Real, &asked).is_some());
                }
            }
        }

        #[test]
        fn r114_a_new_file_lies_where_its_directory_does(made in made(), asked in prop::collection::vec(0..NAMES.len(), 1..6)) {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap().join("x/y/z");
            plant(&root, &made);
            let above = root.join(path(&asked));
            if let Ok(kernel) = above.canonicalize() {
                prop_assert_eq!(resolve(&Real, &above.join("new/deep/file")), Some(kernel.join("new/deep/file")));
            }
        }
    }
}
