//! The messages between the coordinator and its workers.
//!
//! Role: orders, which name tasks, and reports, which contain results.
//! Method: an order lists runs of consecutive tasks. A report is a short head and the records of
//! the journal, which the coordinator appends as they are.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A message to a worker.
#[derive(Debug, PartialEq)]
pub(super) enum Order {
    /// Run these tasks.
    Run(Vec<u64>),
    /// There is no more work.
    End,
}

/// A message from a worker.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// Set in the last report about an order.
    pub(super) is_last: bool,
    /// The time that the order took; zero in reports before the last one.
    pub(super) elapsed: Duration,
    /// The task that ended the order early.
    pub(super) failure: Option<Failure>,
    /// The results, as records of a journal.
    pub(super) records: Vec<u8>,
}

/// An error or a panic of a task.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) task: u64,
    pub(super) message: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    is_last: bool,
    elapsed: Duration,
    failure: Option<Failure>,
}

impl Order {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let runs = match self {
            Self::Run(tasks) => runs(tasks),
            Self::End => vec![],
        };
        postcard::to_allocvec(&runs).expect("a list of numbers has a form in bytes")
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let runs: Vec<(u64, u64)> =
            postcard::from_bytes(bytes).expect("the coordinator has the same format");
        if runs.is_empty() {
            return Self::End;
        }
        let tasks = runs.into_iter();
        Self::Run(tasks.flat_map(|(first, n)| first..first + n).collect())
    }
}

impl Report {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            is_last: self.is_last,
            elapsed: self.elapsed,
            failure: self.failure.as_ref().map(|failure| Failure {
                task: failure.task,
                message: failure.message.clone(),
            }),
        };
        let mut bytes = postcard::to_allocvec(&head).expect("a report has a form in bytes");
        bytes.extend(&self.records);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let (head, records): (Head, _) =
            postcard::take_from_bytes(bytes).expect("a worker has the same format");
        Self {
            is_last: head.is_last,
            elapsed: head.elapsed,
            failure: head.failure,
            records: records.to_vec(),
        }
    }
}

/// Returns tasks as runs: the first task, and the number of consecutive tasks.
fn runs(tasks: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = vec![];
    for &task in tasks {
        match runs.last_mut() {
            Some((first, n)) if *first + *n == task => *n += 1,
            _ => runs.push((task, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::MAX_BATCH;
    use crate::ranks::MAX_POST_BYTES;

    #[test]
    fn messages_survive_their_form_in_bytes() {
        for tasks in [vec![0], vec![5, 6, 7, 3, 4, 9], vec![u64::MAX - 1]] {
            let order = Order::Run(tasks);
            assert_eq!(Order::from_bytes(&order.to_bytes()), order);
        }
        assert_eq!(Order::from_bytes(&Order::End.to_bytes()), Order::End);
        let report = Report {
            is_last: true,
            elapsed: Duration::from_nanos(17),
            failure: Some(Failure {
                task: 3,
                message: "no".to_owned(),
            }),
            records: vec![1, 2, 3],
        };
        assert_eq!(Report::from_bytes(&report.to_bytes()), report);
    }

    #[test]
    fn the_longest_order_fits_into_a_posted_message() {
        let n_tasks = u64::try_from(MAX_BATCH).unwrap();
        let apart = (0..n_tasks).map(|task| u64::MAX - 2 * task - 1).collect();
        let bytes = Order::Run(apart).to_bytes();
        assert!(bytes.len() <= MAX_POST_BYTES, "{}", bytes.len());
    }
}
