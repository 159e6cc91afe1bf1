//! Methods of the enums with one variant for the watch events of each kind.

/// Implements `progress` and `log` for an enum whose variants are [`WatchEvent`]s, boxed or not.
///
/// [`WatchEvent`]: runtime::reflector::WatchEvent
macro_rules! impl_kind_events {
    ($events:ident: $($event:ident),*) => {
        impl $events {
            /// Progress of the list that the event belongs to.
            pub(super) fn progress(&self) -> $crate::lists::Progress {
                match self {
                    $(Self::$event(change) => $crate::lists::Progress::of(change),)*
                }
            }

            /// Logs a failure or recovery of the watch, and objects that cannot be decoded.
            pub(super) fn log(&self, kind: &str) {
                match self {
                    $(Self::$event(change) => change.log(kind),)*
                }
            }
        }
    };
}

pub(crate) use impl_kind_events;
