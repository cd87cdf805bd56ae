//! Room on the stack for Cedar.
//!
//! Cedar gives up ("recursion limit") when less than 100 KiB of the stack seem to be left, and asks the C library
//! how large the stack is. musl's answer for the first thread of a process is what is mapped at that moment, 132
//! KiB at the start, though the kernel would map more on demand. The answer is kept for the life of the thread.
//! So the first thread has to have used some of its stack before Cedar asks.

use std::{cell::Cell, hint::black_box};

use rustix::process::Resource;

const PIECE: usize = 16 * 1024;
/// Together 1 MiB: several times what the deepest sensible policy needs.
const PIECES: usize = 64;

/// To be called before anything of Cedar is used, on every thread.
pub fn make_room() {
    thread_local!(static MADE: Cell<bool> = const { Cell::new(false) });
    if !MADE.replace(true) && is_first_thread() && is_allowed() {
        use_some(PIECES);
    }
}

/// Others have a stack of a fixed size, which is known.
fn is_first_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

fn is_allowed() -> bool {
    let wanted = 4 * (PIECE * PIECES) as u64;
    rustix::process::getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= wanted)
}

#[inline(never)]
fn use_some(pieces: usize) {
    let piece = black_box([0_u8; PIECE]);
    if pieces > 1 {
        use_some(pieces - 1);
    }
    black_box(&piece);
}
