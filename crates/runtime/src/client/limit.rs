//! A bucket of tokens: how fast calls may follow each other.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::Rate;

/// A bucket that fills at a steady rate up to its brim. Those who wait are served in the order in
/// which they came, and one who gives up takes nothing.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The time that one token takes to drip in.
    interval: Duration,
    /// The time that an empty bucket takes to fill.
    capacity: Duration,
    /// When it is full again. The lock is kept while waiting: tokio's locks are fair.
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

    /// Takes a token, when there is one.
    pub(super) async fn take(&self) {
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
    async fn a_burst_is_let_through_and_then_one_after_the_other() {
        let (bucket, start) = (bucket(10, 3), Instant::now());
        let mut times = Vec::new();
        for _ in 0..6 {
            bucket.take().await;
            times.push(start.elapsed().as_millis());
        }
        // Timers have a resolution of a millisecond.
        let near = |(time, wanted): (&u128, u128)| (wanted..=wanted + 3).contains(time);
        let wanted = [0, 0, 0, 100, 200, 300];
        assert!(times.iter().zip(wanted).all(near), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn rest_fills_the_bucket_to_its_brim_and_no_further() {
        let bucket = bucket(10, 3);
        for _ in 0..3 {
            bucket.take().await;
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..3 {
            assert!(bucket.take().now_or_never().is_some());
        }
        assert!(bucket.take().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_served_in_order() {
        let (bucket, served) = (Arc::new(bucket(10, 1)), Arc::new(Mutex::new(Vec::new())));
        let callers = (0..20).map(|caller| {
            let (bucket, served) = (bucket.clone(), served.clone());
            async move {
                bucket.take().await;
                served.lock().await.push(caller);
            }
        });
        join_all(callers).await;
        assert_eq!(*served.lock().await, (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_takes_nothing() {
        let bucket = bucket(1, 1);
        bucket.take().await;
        for _ in 0..5 {
            assert!(bucket.take().now_or_never().is_none());
        }
        let start = Instant::now();
        bucket.take().await;
        assert!(start.elapsed() < Duration::from_millis(1100));
    }
}
