//! Lists of what is watched, for those who look once.

use futures::{Stream, StreamExt as _};
use runtime::reflector::{WatchEvent, WatchFailure};

/// How far a list has come.
pub(crate) enum Progress {
    /// There is more to come.
    Goes,
    /// It is complete.
    Ended,
    /// It is refused.
    Fails(WatchFailure),
}

impl Progress {
    pub(crate) fn of<T>(change: &WatchEvent<T>) -> Self {
        match change {
            WatchEvent::ListCompleted { .. } => Self::Ended,
            WatchEvent::Failing(failure) => Self::Fails(failure.clone()),
            _ => Self::Goes,
        }
    }
}

/// What a watch tells until its list is complete. It is dropped then, before it watches. Else why
/// there is no list; `name` is the plural that users know.
pub(crate) async fn up_to_the_end<T>(
    changes: impl Stream<Item = T>,
    progress: impl Fn(&T) -> Progress,
    name: &str,
) -> Result<Vec<T>, String> {
    let mut changes = std::pin::pin!(changes);
    let mut all = Vec::new();
    while let Some(change) = changes.next().await {
        match progress(&change) {
            Progress::Goes => all.push(change),
            Progress::Ended => {
                all.push(change);
                break;
            }
            Progress::Fails(failure) => {
                let WatchFailure { code, summary, .. } = &failure;
                return Err(not_listed(*code, summary, name));
            }
        }
    }
    Ok(all)
}

/// Why something cannot be listed, and what to do.
pub(crate) fn not_listed(code: Option<u16>, summary: &str, name: &str) -> String {
    match code {
        None => format!(
            "the API server cannot be reached: {summary}: see that it is up, and that the \
             kubeconfig names the right one"
        ),
        Some(401) => format!(
            "the API server does not know who you are: {summary}: renew the credentials in the \
             kubeconfig"
        ),
        Some(403) => format!("{summary}: ask for the right to list {name}"),
        Some(_) => format!("{name} cannot be listed: {summary}"),
    }
}
