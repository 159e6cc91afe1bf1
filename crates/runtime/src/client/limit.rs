//! Token bucket that limits the rate of calls.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::Rate;

/// Token bucket that starts full. Callers are served in order; one that is cancelled consumes nothing.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Time in which one token is added.
    interval: Duration,
    /// Time in which an empty bucket fills.
    capacity: Duration,
    /// When the bucket is full again. Callers wait with the lock: tokio's locks are fair.
    full_at: Mutex<Instant>,
}

impl Bucket {
    pub(super) fn full(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.qps.get();
        Self {
            interval,
            capacity: interval * rate.burst.get(),
            full_at: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a token and consumes it.
    pub(super) async fn acquire(&self) {
        let mut full_at = self.full_at.lock().await;
        let without_one = (*full_at).max(Instant::now()) + self.interval;
        if let Some(ready) = without_one.checked_sub(self.capacity)
            && ready > Instant::now()
        {
            sleep_until(ready).await;
        }
        *full_at = (*full_at).max(Instant::now()) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Arc};

    use futures::{FutureExt, future::join_all};

    use super::*;

    fn bucket(qps: u32, burst: u32) -> Bucket {
        Bucket::full(Rate {
            qps: NonZeroU32::new(qps).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_the_rate_is_limited() {
        let (bucket, start) = (bucket(10, 3), Instant::now());
        let mut times = Vec::new();
        for _ in 0..6 {
            bucket.acquire().await;
            times.push(start.elapsed().as_millis());
        }
        // Timers have a resolution of a millisecond.
        let near = |(time, wanted): (&u128, u128)| (wanted..=wanted + 3).contains(time);
        let wanted = [0, 0, 0, 100, 200, 300];
        assert!(times.iter().zip(wanted).all(near), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_fills_up_to_its_capacity() {
        let bucket = bucket(10, 3);
        for _ in 0..3 {
            bucket.acquire().await;
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..3 {
            assert!(bucket.acquire().now_or_never().is_some());
        }
        assert!(bucket.acquire().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_are_served_in_order() {
        let (bucket, served) = (Arc::new(bucket(10, 1)), Arc::new(Mutex::new(Vec::new())));
        let callers = (0..20).map(|caller| {
            let (bucket, served) = (bucket.clone(), served.clone());
            async move {
                bucket.acquire().await;
                served.lock().await.push(caller);
            }
        });
        join_all(callers).await;
        assert_eq!(*served.lock().await, (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_caller_consumes_nothing() {
        let bucket = bucket(1, 1);
        bucket.acquire().await;
        for _ in 0..5 {
            assert!(bucket.acquire().now_or_never().is_none());
        }
        let start = Instant::now();
        bucket.acquire().await;
        assert!(start.elapsed() < Duration::from_millis(1100));
    }
}
