//! The page log's bytes: append only, one JSON event a line. Its flock is the page's lock.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::{LOG, event};
use crate::place::{Dir, PlaceError, Stamp, read_range};

/// An open log of JSON lines: a page's, or a session's journal.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: std::path::PathBuf,
    /// As it was opened.
    stamp: Stamp,
    length: Cell<u64>,
    end: u64,
    /// Whether a line ends at `end`, and the log too where its lock was held since it was read.
    whole: bool,
}

impl Log {
    /// Opens a page's log for reading.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn open_to_read(dir: &Dir) -> Result<Log, PlaceError> {
        Log::open(dir, LOG, OFlags::RDONLY)
    }

    /// Opens a page's log for writing.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn open_to_write(dir: &Dir) -> Result<Log, PlaceError> {
        Log::open(dir, LOG, OFlags::RDWR | OFlags::APPEND)
    }

    /// Opens a log by its name.
    ///
    /// # Errors
    /// Where it is missing or can't be opened.
    pub fn open(dir: &Dir, name: &str, flags: OFlags) -> Result<Log, PlaceError> {
        let path = dir.path().join(name);
        match dir.stamped(&[name], flags)? {
            Some((file, stamp)) => Ok(Log { file, path, stamp, length: Cell::new(stamp.length), end: 0, whole: false }),
            None => Err(PlaceError::Io(path, io::ErrorKind::NotFound.into())),
        }
    }

    /// Returns the open file, for its lock.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the log's stamp as it was opened.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns the offset behind the last byte that was read or written.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn error(&self, error: io::Error) -> PlaceError {
        PlaceError::Io(self.path.clone(), error)
    }

    /// Returns the log's length as it was last seen, bytes.
    pub fn length(&self) -> u64 {
        self.length.get()
    }

    /// Looks at the log's length, bytes.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn size(&self) -> Result<u64, PlaceError> {
        let length = self.file.metadata().map(|meta| meta.len()).map_err(|error| self.error(error))?;
        self.length.set(length);
        Ok(length)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Where there is none at that offset.
    pub fn read_at(&mut self, offset: u64) -> Result<u8, PlaceError> {
        let read = read_range(&self.file, offset, 1).map_err(|error| self.error(error))?;
        read.first().copied().ok_or_else(|| self.error(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Reads the first bytes, at most `limit`.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn read_head(&mut self, limit: u64) -> Result<Vec<u8>, PlaceError> {
        read_range(&self.file, 0, limit).map_err(|error| self.error(error))
    }

    /// Reads a stretch.
    ///
    /// # Errors
    /// Where it is not all there.
    pub fn read_span(&self, from: u64, to: u64) -> Result<Vec<u8>, PlaceError> {
        let mut bytes = vec![0; (to - from) as usize];
        self.file.read_exact_at(&mut bytes, from).map_err(|error| self.error(error))?;
        Ok(bytes)
    }

    /// Reads the line that begins at an offset, without its newline.
    ///
    /// # Errors
    /// Where the log can't be read, or ends before the line does.
    pub fn line_at(&self, offset: u64) -> Result<Vec<u8>, PlaceError> {
        let mut line = vec![0; 1024];
        let mut read = 0;
        loop {
            match self.file.read_at(&mut line[read..], offset + read as u64) {
                Ok(0) => return Err(self.error(io::ErrorKind::UnexpectedEof.into())),
                Ok(more) => {
                    if let Some(end) = line[read..read + more].iter().position(|byte| *byte == b'\n') {
                        line.truncate(read + end);
                        return Ok(line);
                    }
                    read += more;
                    if read == line.len() {
                        line.resize(line.len() * 4, 0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Reads all from an offset, up to the length that was last seen: what a writer appends meanwhile is the next reader's. The last
    /// line may be torn.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn read_from(&mut self, offset: u64) -> Result<Vec<u8>, PlaceError> {
        let length = self.length.get().saturating_sub(offset);
        let bytes = read_range(&self.file, offset, length).map_err(|error| self.error(error))?;
        self.end = offset + bytes.len() as u64;
        self.whole = bytes.ends_with(b"\n");
        Ok(bytes)
    }

    /// Whether a line ends where the log does.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Goes on where a line ends that was read before, without reading it again.
    pub fn skip_to(&mut self, end: u64) {
        self.end = end;
        self.whole = end == self.length.get();
    }

    /// Appends whole lines under the lock. A torn line that a killed writer left is closed first, so that it is lost alone
    /// (R127). Where the write or the sync fails the log is cut back: half a transaction never stands.
    ///
    /// # Errors
    /// Where the disk is full or fails; nothing was then appended.
    pub fn append(&mut self, lines: &[u8], sync: bool) -> Result<(), PlaceError> {
        let (before, torn) = if std::mem::take(&mut self.whole) {
            (self.end, false)
        } else {
            let before = self.size()?;
            (before, before > 0 && self.read_at(before - 1)? != b'\n')
        };
        let mut written = if torn { self.file.write_all(b"\n") } else { Ok(()) };
        if written.is_ok() {
            written = self.file.write_all(lines);
        }
        if written.is_ok() && sync {
            written = self.file.sync_data();
        }
        if let Err(error) = written {
            let _ = self.file.set_len(before);
            return Err(self.error(error));
        }
        self.end = before + u64::from(torn) + lines.len() as u64;
        self.length.set(self.end);
        self.whole = true;
        Ok(())
    }
}

/// What lies in a stretch of a log.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole line, without its newline.
    Line(&'a [u8]),
    /// What follows the last newline: a write in flight, or torn by a kill. It is nobody's event.
    Torn(&'a [u8]),
}

/// Splits bytes of a log, beginning at a line's start, into pieces.
pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| match line.strip_suffix(b"\n") {
        Some(line) => Piece::Line(line),
        None => Piece::Torn(line),
    })
}

/// Reads one line of a page log; `None` where it is damaged.
pub fn parse(line: &[u8]) -> Option<event::Event> {
    serde_json::from_slice::<event::Line>(line).ok()?.into_event()
}
