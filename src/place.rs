//! Where things lie, and safe access to the state directory: every path below it is opened component by
//! component without following symlinks (R125), every JSON file is replaced atomically, never truncated.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What this process was told by its environment. Empty values count as unset (R71).
#[derive(Clone, Debug, Default)]
pub struct Env(());

impl Env {
    /// Returns the variable's value, `None` where it is unset or empty.
    pub fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    /// Returns the variable as text, `None` where it is unset, empty or not UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.var(name).and_then(|value| value.into_string().ok())
    }
}

/// Why a place can't be used, as a sentence for a person with the way out.
#[derive(Debug)]
pub enum PlaceError {
    /// No variable says where state may lie.
    NoHome,
    /// The state directory belongs to somebody else.
    ForeignOwner(PathBuf, u32),
    /// Others may write into the state directory.
    OpenToOthers(PathBuf, RawMode),
    /// Something inside the state directory is a symlink or not what its name promises.
    Symlink(PathBuf),
    /// The system refused.
    Io(PathBuf, io::Error),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::NoHome => {
                write!(f, "there is no place for leaf's state: set LEAF_HOME, XDG_STATE_HOME or HOME")
            }
            PlaceError::ForeignOwner(path, uid) => write!(
                f,
                "the state directory {} belongs to another user (uid {uid}): set LEAF_HOME to a directory of your own",
                path.display()
            ),
            PlaceError::OpenToOthers(path, mode) => write!(
                f,
                "others may write into the state directory {} (mode {:o}): run `chmod 700` on it after a look inside",
                path.display(),
                mode & 0o7777
            ),
            PlaceError::Symlink(path) => write!(
                f,
                "{} is a symlink or no plain file or directory, and leaf follows none inside its state directory: remove it",
                path.display()
            ),
            PlaceError::Io(path, error) => write!(f, "can't use {}: {}", path.display(), plain(error)),
        }
    }
}

impl std::error::Error for PlaceError {}

/// Returns an I/O error's sentence without Rust's "(os error N)".
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

/// Returns the state directory's path: `$LEAF_HOME`, else `$XDG_STATE_HOME/leaf`, else `~/.local/state/leaf`.
///
/// # Errors
/// [`PlaceError::NoHome`] where none of them is set.
pub fn state_path(env: &Env) -> Result<PathBuf, PlaceError> {
    // A relative one would mean another place in every directory; the base directory specification says to ignore it.
    let absolute = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let path = if let Some(home) = env.var("LEAF_HOME") {
        PathBuf::from(home)
    } else if let Some(state) = absolute("XDG_STATE_HOME") {
        state.join("leaf")
    } else if let Some(home) = absolute("HOME") {
        home.join(".local/state/leaf")
    } else {
        return Err(PlaceError::NoHome);
    };
    Ok(std::path::absolute(&path).unwrap_or(path))
}

/// Returns `path` with symlinks resolved where it exists, else as it is.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Opens a plain file outside the state directory for reading: a fifo in its place must not hang a hook, nor a terminal become this
/// process's own.
///
/// # Errors
/// Where it can't be opened, or is no plain file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    Ok(file)
}

/// Reads a plain file outside the state directory, which others may have written: at most so many bytes, for some have no end.
///
/// # Errors
/// As [`open_plain`], or where it is longer.
pub fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let size = if most < 1 << 20 { format!("{} KiB", most >> 10) } else { format!("{} MiB", most >> 20) };
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {size}")));
    }
    Ok(bytes)
}

/// A directory of the state, held open. Its path is for messages and for handing to the client alone.
#[derive(Clone, Debug)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens the state directory, which must exist; `Ok(None)` where it does not.
    ///
    /// # Errors
    /// Where it belongs to somebody else or others may write into it (R125). Other permissions of others are taken away.
    pub fn open_home(path: &Path) -> Result<Option<Dir>, PlaceError> {
        // The state directory's own path may lead through symlinks; nothing below it may.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(PlaceError::Io(path.to_path_buf(), error.into())),
        };
        let io = |error: Errno| PlaceError::Io(path.to_path_buf(), error.into());
        let stat = rustix::fs::fstat(&fd).map_err(io)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(PlaceError::ForeignOwner(path.to_path_buf(), stat.st_uid));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(PlaceError::OpenToOthers(path.to_path_buf(), stat.st_mode));
        }
        if stat.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(&fd, Mode::RWXU).map_err(io)?;
        }
        Ok(Some(Dir { fd: Arc::new(fd), path: path.to_path_buf() }))
    }

    /// Opens the state directory, making it (0700, parents too) where it is missing.
    ///
    /// # Errors
    /// As [`Dir::open_home`], or where it can't be made.
    pub fn create_home(path: &Path) -> Result<Dir, PlaceError> {
        if let Some(dir) = Dir::open_home(path)? {
            return Ok(dir);
        }
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| PlaceError::Io(path.to_path_buf(), error))?;
        Dir::open_home(path)?.ok_or_else(|| PlaceError::Io(path.to_path_buf(), Errno::NOENT.into()))
    }

    /// Returns the directory's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, name: &str, error: Errno) -> PlaceError {
        let path = self.path.join(name);
        match error {
            Errno::LOOP | Errno::NOTDIR => PlaceError::Symlink(path),
            error => PlaceError::Io(path, error.into()),
        }
    }

    /// Opens a directory in this one; `Ok(None)` where there is none.
    ///
    /// # Errors
    /// Where it is a symlink, no directory, or can't be opened.
    pub fn sub(&self, name: &str) -> Result<Option<Dir>, PlaceError> {
        self.below(&[name])
    }

    /// Opens a directory that lies several names below; `Ok(None)` where one of them is missing.
    ///
    /// # Errors
    /// As [`Dir::sub`], for each of them.
    pub fn below(&self, names: &[&str]) -> Result<Option<Dir>, PlaceError> {
        match self.open(names, DIRECTORY) {
            Ok(fd) => Ok(Some(Dir { fd: Arc::new(fd), path: self.path.join(names.join("/")) })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error(&names.join("/"), error)),
        }
    }

    /// Opens what lies at a path of these names, and follows no symlink on the way. It makes nothing in other directories.
    fn open(&self, names: &[&str], flags: OFlags) -> Result<OwnedFd, Errno> {
        let [above @ .., name] = names else { return Err(Errno::NOENT) };
        // In one call, where the system knows it and no filter forbids it.
        #[cfg(target_os = "linux")]
        if !above.is_empty() {
            let path = names.iter().map(|name| sink(name)).collect::<Vec<_>>().join("/");
            let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS;
            match rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return opened,
            }
        }
        let mut within: Option<OwnedFd> = None;
        for name in above {
            let fd = within.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            within = Some(rustix::fs::openat(fd, sink(name), DIRECTORY, Mode::empty())?);
        }
        let fd = within.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        rustix::fs::openat(fd, sink(name), flags, mode)
    }

    /// Opens a directory in this one, making it (0700) where it is missing.
    ///
    /// # Errors
    /// As [`Dir::sub`], or where it can't be made.
    pub fn make(&self, name: &str) -> Result<Dir, PlaceError> {
        if let Some(dir) = self.sub(name)? {
            return Ok(dir);
        }
        self.make_only(name)?;
        self.sub(name)?.ok_or_else(|| self.error(name, Errno::NOENT))
    }

    /// Makes a directory in this one (0700) where nothing of its name is there, and leaves it closed.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn make_only(&self, name: &str) -> Result<(), PlaceError> {
        match rustix::fs::mkdirat(&self.fd, sink(name), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Opens a file of this directory with `flags`, 0600 where it is made; `Ok(None)` where it is missing.
    ///
    /// # Errors
    /// Where it is a symlink or no plain file, or can't be opened.
    pub fn file(&self, name: &str, flags: OFlags) -> Result<Option<File>, PlaceError> {
        Ok(self.stamped(&[name], flags)?.map(|(file, _)| file))
    }

    /// Opens a file that lies several names below, with its stamp; `Ok(None)` where one of them is missing. It makes a file in this
    /// directory alone.
    ///
    /// # Errors
    /// As [`Dir::file`], and as [`Dir::sub`] for the directories.
    pub fn stamped(&self, names: &[&str], flags: OFlags) -> Result<Option<(File, Stamp)>, PlaceError> {
        // A planted fifo must not hang a hook: NONBLOCK means nothing to plain files.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = loop {
            match self.open(names, flags) {
                Ok(fd) => break fd,
                Err(Errno::INTR) => {}
                Err(Errno::NOENT) => return Ok(None),
                // A fifo that nobody reads, a socket, a directory.
                Err(Errno::NXIO | Errno::ISDIR) => return Err(PlaceError::Symlink(self.path.join(names.join("/")))),
                Err(error) => return Err(self.error(&names.join("/"), error)),
            }
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| self.error(&names.join("/"), error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(PlaceError::Symlink(self.path.join(names.join("/"))));
        }
        Ok(Some((File::from(fd), Stamp::of(&stat))))
    }

    /// Opens a file for reading and writing, making it where it is missing.
    ///
    /// # Errors
    /// As [`Dir::file`].
    pub fn make_file(&self, name: &str) -> Result<File, PlaceError> {
        self.file(name, OFlags::RDWR | OFlags::CREATE)?.ok_or_else(|| self.error(name, Errno::NOENT))
    }

    /// Opens a file for its lock alone, making it where it is missing: what it is, is no matter.
    ///
    /// # Errors
    /// Where it is a symlink or a directory, or can't be opened.
    pub fn lock_file(&self, name: &str) -> Result<File, PlaceError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        loop {
            match self.open(&[name], flags) {
                Ok(fd) => return Ok(File::from(fd)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.error(name, error)),
            }
        }
    }

    /// Reads a whole file; `Ok(None)` where it is missing.
    ///
    /// # Errors
    /// As [`Dir::file`].
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, PlaceError> {
        Ok(self.read_below(&[name])?.map(|(bytes, _)| bytes))
    }

    /// Reads a whole file that lies several names below, with the stamp that it had before; `Ok(None)` where one of them is missing.
    ///
    /// # Errors
    /// As [`Dir::stamped`].
    pub fn read_below(&self, names: &[&str]) -> Result<Option<(Vec<u8>, Stamp)>, PlaceError> {
        let Some((file, stamp)) = self.stamped(names, OFlags::RDONLY)? else { return Ok(None) };
        match read_range(&file, 0, stamp.length) {
            Ok(bytes) => Ok(Some((bytes, stamp))),
            Err(error) => Err(PlaceError::Io(self.path.join(names.join("/")), error)),
        }
    }

    /// Returns what tells a file's present content from any other it had or will have; `Ok(None)` where it is missing. It opens
    /// nothing: what is trusted of a file is what was read of it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn stamp(&self, names: &[&str]) -> Result<Option<Stamp>, PlaceError> {
        let path = names.iter().map(|name| sink(name)).collect::<Vec<_>>().join("/");
        match rustix::fs::statat(&self.fd, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stamp::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error(&path, error)),
        }
    }

    /// Replaces a file atomically: a reader sees the old or the new bytes, whole. `sync` makes the new ones durable
    /// before the old ones are gone. The caller holds the lock that the file belongs to: one temporary name serves
    /// all its writers, so that what lies there was left by a killed one, or planted. Either goes, and is never written through.
    ///
    /// # Errors
    /// Where the bytes can't be written; the old file then stands.
    pub fn replace(&self, name: &str, bytes: &[u8], sync: bool) -> Result<(), PlaceError> {
        let temporary = format!("{name}.tmp");
        let replaced = self.replace_by(&temporary, name, bytes, sync);
        if replaced.is_err() {
            let _ = self.remove(&temporary);
        }
        replaced?;
        if sync { self.sync() } else { Ok(()) }
    }

    fn replace_by(&self, temporary: &str, name: &str, bytes: &[u8], sync: bool) -> Result<(), PlaceError> {
        let make = || self.file(temporary, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL);
        let made = match make() {
            Err(PlaceError::Io(_, error)) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(temporary)?;
                make()
            }
            other => other,
        };
        let mut file = made?.ok_or_else(|| self.error(temporary, Errno::NOENT))?;
        let written = file.write_all(bytes).and_then(|()| if sync { file.sync_all() } else { Ok(()) });
        written.map_err(|error| PlaceError::Io(self.path.join(name), error))?;
        self.rename(temporary, name)
    }

    /// Makes the directory's own entries durable.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn sync(&self) -> Result<(), PlaceError> {
        rustix::fs::fsync(&self.fd).map_err(|error| PlaceError::Io(self.path.clone(), error.into()))
    }

    /// Renames within the directory; what stood under the new name is replaced, but for a directory that isn't empty.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), PlaceError> {
        rustix::fs::renameat(&self.fd, sink(from), &self.fd, sink(to)).map_err(|error| self.error(to, error))
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn link(&self, from: &str, to: &str) -> Result<(), PlaceError> {
        rustix::fs::linkat(&self.fd, sink(from), &self.fd, sink(to), AtFlags::empty())
            .map_err(|error| self.error(to, error))
    }

    /// Removes a file; one that is missing already is no error.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), PlaceError> {
        match rustix::fs::unlinkat(&self.fd, sink(name), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => Err(PlaceError::Symlink(self.path.join(name))),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Returns the names in the directory, sorted; names that aren't UTF-8 are none of ours and are left out.
    ///
    /// # Errors
    /// Where the directory can't be read.
    pub fn names(&self) -> Result<Vec<String>, PlaceError> {
        let io = |error: Errno| PlaceError::Io(self.path.clone(), error.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.fd.as_fd()).map_err(io)? {
            if let Ok(name) = entry.map_err(io)?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Which file stands at a path, and with which content: every write changes its length or its time, and replacing it its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The file's inode.
    pub inode: u64,
    /// Its length, bytes.
    pub length: u64,
    /// When the content or the inode last changed by the system's clock, nanoseconds since 1970: nobody can set it.
    changed: i64,
}

impl Stamp {
    /// The system's times stand still for so long: two changes within it may look like one.
    const TICK: Duration = Duration::from_millis(20);

    fn of(stat: &Stat) -> Stamp {
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        Stamp {
            inode: stat.st_ino,
            length: u64::try_from(stat.st_size).unwrap_or(0),
            changed: i64::try_from(changed).unwrap_or(i64::MAX),
        }
    }

    /// Whether the last change is so long ago that any further one has another time.
    pub fn is_settled(&self) -> bool {
        let Ok(changed) = u64::try_from(self.changed) else { return false };
        let changed = SystemTime::UNIX_EPOCH + Duration::from_nanos(changed);
        changed.elapsed().is_ok_and(|since| since > Stamp::TICK)
    }
}

/// Reads `length` bytes of a plain file from an offset on, or as many as there are.
///
/// # Errors
/// Where they can't be read.
pub fn read_range(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    while (bytes.len() as u64) < length {
        let at = offset + bytes.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// The last check before a name becomes part of a path (R125): whatever it came from, it is one component.
fn sink(name: &str) -> &str {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) { "\u{1}invalid" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r125_a_name_is_one_component_whatever_it_came_from() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("outside"), "x").unwrap();
        std::fs::create_dir(dir.path().join("state")).unwrap();
        rustix::fs::chmod(dir.path().join("state"), Mode::RWXU).unwrap();
        let state = Dir::open_home(&dir.path().join("state")).unwrap().unwrap();
        for name in ["../outside", "..", ".", "", "a/b", "a\0b", "/etc/passwd"] {
            assert!(matches!(state.read(name), Ok(None)), "{name:?}");
            assert!(matches!(state.sub(name), Ok(None)), "{name:?}");
            state.remove(name).unwrap();
        }
        state.replace("../outside", b"written", false).unwrap();
        assert_eq!(std::fs::read(dir.path().join("outside")).unwrap(), b"x");
    }

    #[test]
    fn r126_a_file_of_others_is_read_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "1234").unwrap();
        assert_eq!(read_plain(&file, 4).unwrap(), b"1234");
        assert_eq!(read_plain(&file, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_plain(dir.path(), 4).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read_plain(&dir.path().join("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
