//! The process' first steps on Linux, in place of those of Rust's runtime. leaf runs on every tool call of an agent, and the
//! runtime's way to `main` costs 20 system calls, most of them for the message of a stack overflow. What leaf relies on of it is
//! done here: standard streams that are open, writes to a closed pipe that fail and don't kill, and the arguments.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// What the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    open_streams();
    // SAFETY: no other thread runs yet, and ignoring needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let count = usize::try_from(argc).unwrap_or(0);
    let args = (0..count).map(|n| {
        // SAFETY: the C library hands over `argc` pointers to strings that stand as long as the process.
        let text = unsafe { CStr::from_ptr(*argv.add(n)) };
        OsString::from(OsStr::from_bytes(text.to_bytes()))
    });
    let code = crate::run(args.collect());
    // Flushes stdout, and frees nothing that the system frees anyway.
    std::process::exit(i32::from(code))
}

/// Opens `/dev/null` in the place of a standard stream that is closed: the next file that is opened would be it.
fn open_streams() {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: poll gets as many streams as there are, and open a string that ends with NUL.
    unsafe {
        while libc::poll(streams.as_mut_ptr(), 3, 0) == -1 {
            if *libc::__errno_location() != libc::EINTR {
                libc::abort();
            }
        }
        for _ in streams.iter().filter(|stream| stream.revents & libc::POLLNVAL != 0) {
            // The lowest that is free, so the one that is closed.
            if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) == -1 {
                libc::abort();
            }
        }
    }
}
