//! One-time lists through the reflector, for commands that read the cluster once.

use futures::{Stream, StreamExt as _};
use runtime::reflector::{WatchEvent, WatchFailure};

/// Progress of a list.
pub(crate) enum Progress {
    Incomplete,
    Complete,
    Failed(WatchFailure),
}

impl Progress {
    pub(crate) fn of<T>(change: &WatchEvent<T>) -> Self {
        match change {
            WatchEvent::ListCompleted { .. } => Self::Complete,
            WatchEvent::Failing(failure) => Self::Failed(failure.clone()),
            _ => Self::Incomplete,
        }
    }
}

/// Collects the events of a watch until its list is complete, and drops it before it watches. `name` is
/// the plural resource name for the error.
pub(crate) async fn collect_list<T>(
    changes: impl Stream<Item = T>,
    progress: impl Fn(&T) -> Progress,
    name: &str,
) -> Result<Vec<T>, String> {
    let mut changes = std::pin::pin!(changes);
    let mut all = Vec::new();
    while let Some(change) = changes.next().await {
        match progress(&change) {
            Progress::Incomplete => all.push(change),
            Progress::Complete => {
                all.push(change);
                break;
            }
            Progress::Failed(failure) => {
                let WatchFailure { code, summary, .. } = &failure;
                return Err(list_error(*code, summary, name));
            }
        }
    }
    Ok(all)
}

/// Error message, with a remedy, for a failed list.
pub(crate) fn list_error(code: Option<u16>, summary: &str, name: &str) -> String {
    match code {
        None => format!(
            "cannot reach the API server: {summary}: check that it is running and that the \
             kubeconfig points to it"
        ),
        Some(401) => format!(
            "the API server rejected the credentials: {summary}: renew the credentials in the \
             kubeconfig"
        ),
        Some(403) => format!("{summary}: the user needs permission to list {name}"),
        Some(_) => format!("cannot list {name}: {summary}"),
    }
}
