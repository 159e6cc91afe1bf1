use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue(resync: Option<Duration>) -> (Queue<&'static str>, Instant) {
    let start = Instant::now();
    let settings = Settings {
        resync,
        ..Settings::default()
    };
    (Queue::new(settings, start, Random::seeded(1)), start)
}

#[test]
fn a_key_that_is_added_often_is_looked_at_once() {
    let (mut queue, now) = queue(None);
    for _ in 0..10 {
        queue.add("a", now);
    }
    assert_eq!(queue.depth(now), 1);
    assert_eq!(queue.pop(now), Some("a"));
    assert_eq!(queue.pop(now), None);
    assert_eq!(queue.done(&"a", Outcome::Settled, now), None);
    assert!(queue.is_empty());
    assert_eq!(queue.next_wake(), None);
}

#[test]
fn a_key_is_never_handed_out_twice_at_a_time() {
    let (mut queue, now) = queue(None);
    queue.add("a", now);
    assert_eq!(queue.pop(now), Some("a"));
    queue.add("a", now);
    assert_eq!(queue.pop(now + SECOND), None);
    assert_eq!(queue.in_flight(), 1);

    queue.done(&"a", Outcome::Settled, now + SECOND);
    assert_eq!(queue.in_flight(), 0);
    assert_eq!(queue.pop(now + SECOND), Some("a"));
    queue.done(&"a", Outcome::Settled, now + SECOND);
    assert_eq!(queue.pop(now + 9 * SECOND), None);
}

#[test]
fn a_hot_key_goes_to_the_end_of_the_line() {
    let (mut queue, now) = queue(None);
    for key in ["hot", "b", "c"] {
        queue.add(key, now);
    }
    let mut seen = Vec::new();
    for step in 0..5 {
        let now = now + step * SECOND;
        let key = queue.pop(now).unwrap();
        seen.push(key);
        if key == "hot" {
            queue.add("hot", now);
        }
        queue.done(&key, Outcome::Settled, now);
    }
    assert_eq!(seen, ["hot", "b", "c", "hot", "hot"]);
}

#[test]
fn the_earliest_time_counts() {
    let (mut queue, now) = queue(None);
    queue.add_after("a", now + 10 * SECOND);
    queue.add_after("a", now + 5 * SECOND);
    queue.add_after("a", now + 20 * SECOND);
    assert_eq!(queue.next_wake(), Some(now + 5 * SECOND));
    assert_eq!(queue.pop(now + 4 * SECOND), None);
    assert_eq!(queue.pop(now + 5 * SECOND), Some("a"));
    queue.done(&"a", Outcome::Settled, now + 5 * SECOND);
    assert_eq!(queue.pop(now + 60 * SECOND), None);
}

#[test]
fn a_key_that_waits_is_due_as_soon_as_something_is_heard_of_it() {
    let (mut queue, now) = queue(None);
    queue.add("a", now);
    queue.pop(now);
    let failed = Outcome::Failed { retry_after: None };
    let next = queue.done(&"a", failed, now).unwrap();
    assert!(next > now && next <= now + SECOND);
    queue.add("a", now);
    assert_eq!(queue.pop(now), Some("a"));
    assert_eq!(queue.failures(&"a"), 1);
}

#[test]
fn delays_grow_with_failures_and_end_with_success() {
    let (mut queue, mut now) = queue(Some(30 * SECOND));
    queue.add("a", now);
    for failures in 1..=20_u32 {
        assert_eq!(queue.pop(now), Some("a"));
        let failed = Outcome::Failed { retry_after: None };
        let next = queue.done(&"a", failed, now).unwrap();
        assert_eq!(queue.failures(&"a"), failures);
        assert!(next - now <= 300 * SECOND);
        if failures > 10 {
            assert!(next - now >= 150 * SECOND, "a resync cuts no delay short");
        }
        now = next;
    }
    assert_eq!(queue.pop(now), Some("a"));
    queue.done(&"a", Outcome::Settled, now);
    assert_eq!(queue.failures(&"a"), 0);
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let (mut queue, now) = queue(None);
    queue.add("a", now);
    queue.pop(now);
    let failed = Outcome::Failed {
        retry_after: Some(60 * SECOND),
    };
    assert_eq!(queue.done(&"a", failed, now), Some(now + 60 * SECOND));
}

#[test]
fn a_key_that_is_gone_is_forgotten_unless_it_was_heard_of_meanwhile() {
    let (mut queue, now) = queue(Some(10 * SECOND));
    queue.add("a", now);
    queue.pop(now);
    assert_eq!(queue.done(&"a", Outcome::Gone, now), None);
    assert!(queue.is_empty());

    queue.add("a", now);
    queue.pop(now);
    queue.add("a", now);
    queue.done(&"a", Outcome::Gone, now);
    assert_eq!(queue.pop(now), Some("a"));
}

#[test]
fn what_was_not_popped_cannot_be_done() {
    let (mut queue, now) = queue(None);
    assert_eq!(queue.done(&"a", Outcome::Settled, now), None);
    queue.add("a", now);
    assert_eq!(queue.done(&"a", Outcome::Gone, now), None);
    assert_eq!(queue.pop(now), Some("a"));
}

#[test]
fn every_key_is_looked_at_once_in_each_interval_and_not_all_at_once() {
    let start = Instant::now();
    let settings = Settings {
        resync: Some(600 * SECOND),
        ..Settings::default()
    };
    let mut queue = Queue::new(settings, start, Random::seeded(1));
    for key in 0..10_000_u32 {
        queue.add(key, start);
    }
    assert_eq!(drain(&mut queue, start), 10_000);

    let mut looks = 0;
    for second in 1..=600 {
        let due = drain(&mut queue, start + second * SECOND);
        assert!(due < 60, "{due} keys in second {second}");
        looks += due;
    }
    assert_eq!(looks, 10_000);
}

#[test]
fn a_key_that_is_often_looked_at_keeps_its_moment() {
    let (mut queue, start) = queue(Some(100 * SECOND));
    queue.add("a", start);
    queue.pop(start);
    let moment = queue.done(&"a", Outcome::Settled, start).unwrap();
    assert!(moment > start && moment <= start + 100 * SECOND);
    let before = moment - Duration::from_millis(1);
    queue.add("a", before);
    queue.pop(before);
    assert_eq!(queue.done(&"a", Outcome::Settled, before), Some(moment));
    assert_eq!(queue.pop(moment), Some("a"));
    let next = queue.done(&"a", Outcome::Again(moment + 500 * SECOND), moment);
    assert_eq!(next, Some(moment + 100 * SECOND));
}

fn drain(queue: &mut Queue<u32>, now: Instant) -> u32 {
    let mut count = 0;
    while let Some(key) = queue.pop(now) {
        count += 1;
        queue.done(&key, Outcome::Settled, now);
    }
    count
}
