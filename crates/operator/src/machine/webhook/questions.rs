//! Questions to the running operator: the loop alone has the caches, and answers between two writes.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::machine::caches::Caches;

/// How long a question may wait for the loop. The API server waits 3 s for all of an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many questions wait at a time; more are not asked.
const WAITING: usize = 256;

type Question = Box<dyn FnOnce(&Caches) + Send>;

/// The questions that are asked of an operator.
pub struct Questions {
    asker: Asker,
    asked: mpsc::Receiver<Question>,
}

impl Default for Questions {
    fn default() -> Self {
        let (sender, asked) = mpsc::channel(WAITING);
        Self {
            asker: Asker(sender),
            asked,
        }
    }
}

impl Questions {
    /// What asks.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// A question that waits already.
    pub(in crate::machine) fn waiting(&mut self) -> Option<Question> {
        self.asked.try_recv().ok()
    }

    /// The next question; there is always one to come.
    pub(in crate::machine) async fn next(&mut self) -> Option<Question> {
        self.asked.recv().await
    }
}

/// Asks a running operator.
#[derive(Clone)]
pub(super) struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// What the caches say; nothing if no operator runs, or it is too busy to tell.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Caches) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let question: Question = Box::new(move |caches| {
            // Whoever has gone away does not want to know any more.
            let _ = sender.send(question(caches));
        });
        self.0.try_send(question).ok()?;
        timeout(PATIENCE, answer).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_answers_is_given_up() {
        let questions = Questions::default();
        let asker = questions.asker();
        let began = Instant::now();
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(began.elapsed(), PATIENCE);
        drop(questions);
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(began.elapsed(), PATIENCE, "nobody is there to wait for");
    }

    #[tokio::test(start_paused = true)]
    async fn more_questions_than_can_wait_are_given_up_at_once() {
        let questions = Questions::default();
        let asker = questions.asker();
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                tokio::spawn({
                    let asker = asker.clone();
                    async move { asker.ask(|_| ()).await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let began = Instant::now();
        assert_eq!(asker.ask(|_| ()).await, None);
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(waiting);
    }

    #[tokio::test]
    async fn a_question_is_answered_from_the_caches() {
        let mut questions = Questions::default();
        let asker = questions.asker();
        let asking = tokio::spawn(async move { asker.ask(|caches| caches.keeps("a")).await });
        let question = questions.next().await.unwrap();
        question(&Caches::new(vec![String::new()]));
        assert_eq!(asking.await.unwrap(), Some(true));
    }
}
