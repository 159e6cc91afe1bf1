use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue(resync: Option<Duration>) -> (WorkQueue<&'static str>, Instant) {
    let start = Instant::now();
    (WorkQueue::new(resync, start, Random::seeded(1)), start)
}

#[test]
fn a_key_that_is_added_often_is_popped_once() {
    let (mut queue, now) = queue(None);
    for _ in 0..10 {
        queue.add("a", now);
    }
    assert_eq!(queue.depth(now), 1);
    assert_eq!(queue.pop(now), Some("a"));
    assert_eq!(queue.pop(now), None);
    assert_eq!(queue.done(&"a", Requeue::AtResync, now), None);
    assert!(queue.keys.is_empty());
    assert_eq!(queue.next_wake(), None);
}

#[test]
fn a_key_in_flight_is_not_popped_again() {
    let (mut queue, now) = queue(None);
    queue.add("a", now);
    assert_eq!(queue.pop(now), Some("a"));
    queue.add("a", now);
    assert_eq!(queue.pop(now + SECOND), None);

    queue.done(&"a", Requeue::AtResync, now + SECOND);
    assert_eq!(queue.pop(now + SECOND), Some("a"));
    queue.done(&"a", Requeue::AtResync, now + SECOND);
    assert_eq!(queue.pop(now + 9 * SECOND), None);
}

#[test]
fn a_hot_key_goes_to_the_end_of_the_queue() {
    let (mut queue, now) = queue(None);
    for key in ["hot", "b", "c"] {
        queue.add(key, now);
    }
    let mut popped = Vec::new();
    for step in 0..5 {
        let now = now + step * SECOND;
        let key = queue.pop(now).unwrap();
        popped.push(key);
        if key == "hot" {
            queue.add("hot", now);
        }
        queue.done(&key, Requeue::AtResync, now);
    }
    assert_eq!(popped, ["hot", "b", "c", "hot", "hot"]);
}

#[test]
fn the_earliest_time_wins() {
    let (mut queue, now) = queue(None);
    queue.add_at("a", now + 10 * SECOND);
    queue.add_at("a", now + 5 * SECOND);
    queue.add_at("a", now + 20 * SECOND);
    assert_eq!(queue.next_wake(), Some(now + 5 * SECOND));
    assert_eq!(queue.pop(now + 4 * SECOND), None);
    assert_eq!(queue.pop(now + 5 * SECOND), Some("a"));
    queue.done(&"a", Requeue::AtResync, now + 5 * SECOND);
    assert_eq!(queue.pop(now + 60 * SECOND), None);
}

#[test]
fn an_added_key_is_due_whatever_it_was_requeued_for() {
    let (mut queue, now) = queue(None);
    queue.add("a", now);
    queue.pop(now);
    let next = queue.done(&"a", Requeue::At(now + SECOND), now);
    assert_eq!(next, Some(now + SECOND));
    assert_eq!(queue.pop(now), None);
    queue.add("a", now);
    assert_eq!(queue.pop(now), Some("a"));
}

#[test]
fn a_key_of_a_deleted_object_is_dropped_unless_it_was_added_meanwhile() {
    let (mut queue, now) = queue(Some(10 * SECOND));
    queue.add("a", now);
    queue.pop(now);
    assert_eq!(queue.done(&"a", Requeue::Never, now), None);
    assert!(queue.keys.is_empty());

    queue.add("a", now);
    queue.pop(now);
    queue.add("a", now);
    queue.done(&"a", Requeue::Never, now);
    assert_eq!(queue.pop(now), Some("a"));
}

#[test]
fn done_ignores_keys_that_are_not_in_flight() {
    let (mut queue, now) = queue(None);
    assert_eq!(queue.done(&"a", Requeue::AtResync, now), None);
    queue.add("a", now);
    assert_eq!(queue.done(&"a", Requeue::Never, now), None);
    assert_eq!(queue.pop(now), Some("a"));
}

#[test]
fn every_key_is_resynced_once_per_interval_and_the_load_is_spread() {
    let start = Instant::now();
    let mut queue = WorkQueue::new(Some(600 * SECOND), start, Random::seeded(1));
    for key in 0..10_000_u32 {
        queue.add(key, start);
    }
    assert_eq!(drain(&mut queue, start), 10_000);

    let mut resyncs = 0;
    for second in 1..=600 {
        let due = drain(&mut queue, start + second * SECOND);
        assert!(due < 60, "{due} keys in second {second}");
        resyncs += due;
    }
    assert_eq!(resyncs, 10_000);
}

#[test]
fn frequent_reconciles_do_not_postpone_a_resync() {
    let (mut queue, start) = queue(Some(100 * SECOND));
    queue.add("a", start);
    queue.pop(start);
    let resync = queue.done(&"a", Requeue::AtResync, start).unwrap();
    assert!(resync > start && resync <= start + 100 * SECOND);
    let before = resync - Duration::from_millis(1);
    queue.add("a", before);
    queue.pop(before);
    assert_eq!(queue.done(&"a", Requeue::AtResync, before), Some(resync));
    assert_eq!(queue.pop(resync), Some("a"));
    let next = queue.done(&"a", Requeue::At(resync + 500 * SECOND), resync);
    assert_eq!(next, Some(resync + 100 * SECOND));
}

fn drain(queue: &mut WorkQueue<u32>, now: Instant) -> u32 {
    let mut count = 0;
    while let Some(key) = queue.pop(now) {
        count += 1;
        queue.done(&key, Requeue::AtResync, now);
    }
    count
}
