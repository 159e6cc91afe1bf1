//! Room for recursion: deep expressions are worked on by a thread with a large stack.

use std::thread;

/// Levels for which the stack of the caller suffices.
const MAX_LEVELS: usize = 32;
/// Stack for the deepest expression. Untouched pages cost no memory.
const LARGE: usize = 256 * 1024 * 1024;

/// Characters of a source that may each be a level of its syntax tree.
pub(crate) fn deepening(text: &str) -> usize {
    let counted = b"+-*/%<>=!&|?.,[({";
    text.bytes().filter(|byte| counted.contains(byte)).count()
}

/// Runs `work` where there is room for so many levels; `None` if there is none.
pub(crate) fn with_room<T: Send>(levels: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    if levels <= MAX_LEVELS {
        return Some(work());
    }
    thread::scope(|scope| {
        let large = thread::Builder::new().stack_size(LARGE);
        large.spawn_scoped(scope, work).ok()?.join().ok()
    })
}
