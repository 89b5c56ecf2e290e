//! A turn's scratch directory: where its fork may write (R99). `${TMPDIR:-/tmp}/leaf-<uid>/<turn>`, 0700; it goes with the turn's
//! record.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::ids::TurnId;
use crate::place::Env;

/// Returns where a turn's scratch directory lies, whether or not it is there.
pub fn path(turn: TurnId) -> PathBuf {
    own().join(turn.to_string())
}

fn own() -> PathBuf {
    let temporary = Env::default().var("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    temporary.join(format!("leaf-{}", rustix::process::geteuid().as_raw()))
}

/// Makes the directory above all turns'.
///
/// # Errors
/// As [`make`].
pub fn prepare() -> io::Result<()> {
    directory(&own())
}

/// Makes a turn's scratch directory.
///
/// # Errors
/// Where it can't be made, or where the directory above it, which others could have made first, is not the user's own (R125).
pub fn make(turn: TurnId) -> io::Result<PathBuf> {
    prepare()?;
    let path = path(turn);
    directory(&path)?;
    Ok(path)
}

fn directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = symlink_metadata(path)?;
            let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
            if own { Ok(()) } else { Err(io::Error::other("it is not a directory of the user's alone")) }
        }
        Err(error) => Err(error),
    }
}

/// Removes a turn's scratch directory. Failing is no matter: the system clears its temporary directory.
pub fn remove(turn: TurnId) {
    let _ = std::fs::remove_dir_all(path(turn));
}
