//! Work shared out among threads, such that results do not depend on how many there are.

/// Threads worth starting here.
pub(super) fn threads() -> usize {
    #[cfg(test)]
    if let Some(threads) = FORCED.get() {
        return threads;
    }
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

#[cfg(test)]
std::thread_local! {
    /// The number of threads in a test that varies it.
    pub(super) static FORCED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Does each piece of work, spread over [`threads`]; answers are in the order of the pieces.
pub(super) fn each<T: Send, A: Send>(work: Vec<T>, run: impl Fn(T) -> A + Sync) -> Vec<A> {
    let length = work.len().div_ceil(threads()).max(1);
    if length >= work.len() {
        return work.into_iter().map(run).collect();
    }
    let run = &run;
    let mut work = work.into_iter();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        loop {
            let part: Vec<T> = work.by_ref().take(length).collect();
            if part.is_empty() {
                break;
            }
            running.push(scope.spawn(move || part.into_iter().map(run).collect::<Vec<A>>()));
        }
        let parts = running.into_iter().flat_map(|thread| match thread.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        parts.collect()
    })
}
