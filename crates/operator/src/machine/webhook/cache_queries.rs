//! Queries to the caches of a running operator: the control loop owns the caches and answers between
//! two reconciles.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::machine::caches::Caches;

/// Time within which the control loop must answer. The API server waits 3 s for the whole review.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of queued queries; more are dropped.
const QUEUE_CAPACITY: usize = 256;

/// Query of the caches; it sends its answer itself.
pub(in crate::machine) type CacheQuery = Box<dyn FnOnce(&Caches) + Send>;

/// Queue of queries to an operator's caches.
pub struct CacheQueries {
    reader: CacheReader,
    receiver: mpsc::Receiver<CacheQuery>,
}

impl Default for CacheQueries {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        Self {
            reader: CacheReader(sender),
            receiver,
        }
    }
}

impl CacheQueries {
    pub(super) fn reader(&self) -> CacheReader {
        self.reader.clone()
    }

    pub(in crate::machine) fn into_receiver(self) -> mpsc::Receiver<CacheQuery> {
        self.receiver
    }
}

/// Sender of queries to a running operator.
#[derive(Clone)]
pub(super) struct CacheReader(mpsc::Sender<CacheQuery>);

impl CacheReader {
    /// Evaluates `query` on the caches; none if no operator runs or it does not answer in time.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Caches) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let query: CacheQuery = Box::new(move |caches| {
            // The receiver is gone after the timeout.
            let _ = sender.send(query(caches));
        });
        self.0.try_send(query).ok()?;
        timeout(RESPONSE_TIMEOUT, answer).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use runtime::cache::WatchScope;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_query_times_out() {
        let queries = CacheQueries::default();
        let reader = queries.reader();
        let began = Instant::now();
        assert_eq!(reader.query(|_| ()).await, None);
        assert_eq!(began.elapsed(), RESPONSE_TIMEOUT);
        drop(queries);
        assert_eq!(reader.query(|_| ()).await, None);
        assert_eq!(
            began.elapsed(),
            RESPONSE_TIMEOUT,
            "a stopped operator is not waited for"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_beyond_the_capacity_fails_at_once() {
        let queries = CacheQueries::default();
        let reader = queries.reader();
        for _ in 0..QUEUE_CAPACITY {
            assert!(reader.0.try_send(Box::new(|_| ())).is_ok());
        }
        let began = Instant::now();
        assert_eq!(reader.query(|_| ()).await, None);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_query_is_answered_from_the_caches() {
        let queries = CacheQueries::default();
        let reader = queries.reader();
        let mut queries = queries.into_receiver();
        let asking =
            tokio::spawn(async move { reader.query(|caches| caches.covers(Some("a"))).await });
        let query = queries.recv().await.unwrap();
        query(&Caches::new(vec![WatchScope::Cluster]));
        assert_eq!(asking.await.unwrap(), Some(true));
    }
}
