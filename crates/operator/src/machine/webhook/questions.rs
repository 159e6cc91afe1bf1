//! Queries to the caches of a running operator: the control loop owns the caches and answers between
//! two reconciles.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::machine::caches::Caches;

/// Time within which the control loop must answer. The API server waits 3 s for the whole review.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of queued questions; more are dropped.
const QUEUE_CAPACITY: usize = 256;

/// Question to the caches; it sends its answer itself.
pub(in crate::machine) type Question = Box<dyn FnOnce(&Caches) + Send>;

/// Queue of questions to an operator's caches.
pub struct Questions {
    asker: Asker,
    receiver: mpsc::Receiver<Question>,
}

impl Default for Questions {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        Self {
            asker: Asker(sender),
            receiver,
        }
    }
}

impl Questions {
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    pub(in crate::machine) fn into_receiver(self) -> mpsc::Receiver<Question> {
        self.receiver
    }
}

/// Sender of questions to a running operator.
#[derive(Clone)]
pub(super) struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// Evaluates `question` on the caches; none if no operator runs or it does not answer in time.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Caches) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let question: Question = Box::new(move |caches| {
            // The receiver is gone after the timeout.
            let _ = sender.send(question(caches));
        });
        self.0.try_send(question).ok()?;
        timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_question_times_out() {
        let questions = Questions::default();
        let asker = questions.asker();
        let began = Instant::now();
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(began.elapsed(), ANSWER_TIMEOUT);
        drop(questions);
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(
            began.elapsed(),
            ANSWER_TIMEOUT,
            "a stopped operator is not waited for"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_beyond_the_capacity_fails_at_once() {
        let questions = Questions::default();
        let asker = questions.asker();
        for _ in 0..QUEUE_CAPACITY {
            assert!(asker.0.try_send(Box::new(|_| ())).is_ok());
        }
        let began = Instant::now();
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_question_is_answered_from_the_caches() {
        let questions = Questions::default();
        let asker = questions.asker();
        let mut questions = questions.into_receiver();
        let asking = tokio::spawn(async move { asker.ask(|caches| caches.covers("a")).await });
        let question = questions.recv().await.unwrap();
        question(&Caches::new(vec![String::new()]));
        assert_eq!(asking.await.unwrap(), Some(true));
    }
}
