//! The ranks of an MPI job: start and end, messages, and agreement on errors.
//!
//! Role: the only module that starts MPI, and that sends bytes for the other modules.
//! Method: only the main thread calls MPI. Messages never wait inside the MPI library, because its
//! waiting loops occupy a core each: a request is tested, and between tests the thread yields its
//! core and soon sleeps ([`Idle`]). The start and the end of MPI, and functions of files that all
//! ranks call together, do wait inside the library, for as long as the ranks arrive at different
//! times. An error on one rank becomes an error on all ranks
//! ([`Cluster::agree`]), so that no rank waits for another one that has given up.
//! Limits: if a rank dies, MPI ends the job.

use std::cell::Cell;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{
    AsRaw as _, Communicator, CommunicatorCollectives as _, Destination as _, Source as _,
};
use mpi::{Count, Rank, Tag, Threading};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensor_core::exec::Level;

use crate::error::{Error, Result};
use crate::queue;

/// The largest size of a message, in bytes: the count of bytes is a 32-bit integer.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// The bytes that each rank sends in the first part of an exchange.
const BLOCK_BYTES: usize = 256;

/// The largest size of a message that [`Cluster::post`] sends.
pub(crate) const MAX_POST_BYTES: usize = 16 * queue::MAX_BATCH;

/// The number of messages to one rank that can wait at a time.
pub(crate) const MAX_POSTS: usize = 3;

/// The processes of an MPI job, of which the current process is one.
///
/// All ranks create a `Cluster` at the beginning of the program and call its functions in the same
/// order. The `Cluster` is dropped at the end of the program, where all ranks wait for each other.
/// If a rank panics, the whole job is aborted. A rank that returns an error of its own, while
/// others go on, leaves the others waiting: [`agree`](Self::agree) turns the error into one of all
/// ranks, and [`abort`](Self::abort) ends the job.
///
/// # Examples
/// ```no_run
/// let cluster = cluster::Cluster::start()?;
/// println!("rank {} of {}", cluster.rank(), cluster.n_ranks());
/// # Ok::<(), cluster::Error>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    /// Messages of this crate, apart from those of other users of MPI.
    own: OwnCommunicator,
    members: Vec<Member>,
    traffic: Cell<Traffic>,
    // Fields are dropped in this order: MPI ends last.
    _library: Library,
    /// Only the thread that started MPI may call it.
    _not_send: PhantomData<*const ()>,
}

/// The MPI library, from its start to its end.
struct Library {
    _universe: Universe,
}

struct OwnCommunicator(SimpleCommunicator);

/// The place of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name of the host.
    pub host: String,
    /// The number of the rank among those of its host, from 0.
    pub local_rank: usize,
    /// The number of ranks of the host.
    pub n_local_ranks: usize,
    /// The widest vector instructions of the CPU, which decide about the bits of some sums.
    pub instructions: String,
    /// The CPUs that the rank may use, as in Linux's `Cpus_allowed_list`; empty on other systems.
    pub cpus: String,
    /// The number of threads that the rank can run at a time, if it shares its CPUs with no other.
    pub n_threads: usize,
}

/// The messages that a rank sent and the time that it spent with messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes of all messages, without those that MPI adds. An exchange among all ranks counts
    /// the bytes of this rank once.
    pub bytes_sent: u64,
    /// The number of messages. An exchange among all ranks counts as one.
    pub messages_sent: u64,
    /// The time in which the rank sent, received, or waited for a message.
    pub elapsed: Duration,
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    /// Returns the messages after an earlier count.
    fn sub(self, earlier: Self) -> Self {
        Self {
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            messages_sent: self.messages_sent - earlier.messages_sent,
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
        }
    }
}

/// A wait that leaves the core to others: it yields at first, and then sleeps for a fiftieth of the
/// time that it has lasted so far. So it is longer than necessary by a fiftieth, and by
/// [`LONGEST_SLEEP`] at most.
#[derive(Debug)]
pub(crate) struct Idle {
    since: Instant,
}

/// The time in which a wait only yields.
const YIELD_TIME: Duration = Duration::from_micros(50);

/// The longest sleep within a wait.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

impl Idle {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
        }
    }

    /// Returns how long to sleep before the next test; zero at first.
    pub(crate) fn next(&self) -> Duration {
        sleep_after(self.since.elapsed())
    }

    /// Yields or sleeps.
    pub(crate) fn pause(&self) {
        match self.next() {
            Duration::ZERO => thread::yield_now(),
            sleep => thread::sleep(sleep),
        }
    }
}

/// Returns the next sleep of a wait that has lasted for `waited`.
fn sleep_after(waited: Duration) -> Duration {
    if waited < YIELD_TIME {
        return Duration::ZERO;
    }
    (waited / 50).min(LONGEST_SLEEP)
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

impl std::fmt::Debug for OwnCommunicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnCommunicator")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            // The end of MPI waits for all ranks, which may wait for a message of this one.
            self.abort(101);
        }
    }
}

impl Cluster {
    /// Starts MPI. A program that was not started by `mpirun` or `srun` is the only rank.
    ///
    /// # Errors
    /// [`Error::AlreadyStarted`]; [`Error::NoThreads`]; [`Error::OtherLauncher`] if the launcher
    /// belongs to another MPI library than the program, so that each process would be alone.
    pub fn start() -> Result<Self> {
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let (mut universe, threading) = started.ok_or(Error::AlreadyStarted)?;
        if threading < Threading::Funneled {
            return Err(Error::NoThreads {
                level: format!("{threading:?}"),
            });
        }
        let world = universe.world();
        let n_ranks = usize::try_from(world.size()).unwrap_or(1);
        check_launcher(n_ranks)?;
        if world.rank() == 0 {
            // Only the coordinator posts messages.
            let buffer = n_ranks.saturating_mul(MAX_POSTS * (MAX_POST_BYTES + 1024));
            universe.set_buffer_size(buffer.min(MAX_MESSAGE_BYTES));
        }
        let host = world.split_shared(world.rank());
        let own = Member {
            host: mpi::environment::processor_name().unwrap_or_default(),
            local_rank: usize::try_from(host.rank()).unwrap_or(0),
            n_local_ranks: usize::try_from(host.size()).unwrap_or(1),
            instructions: instructions(),
            cpus: allowed_cpus(),
            n_threads: thread::available_parallelism().map_or(1, usize::from),
        };
        let mut cluster = Self {
            own: OwnCommunicator(world.duplicate()),
            members: vec![],
            traffic: Cell::default(),
            _library: Library {
                _universe: universe,
            },
            _not_send: PhantomData,
        };
        cluster.members = cluster.exchange("start", &own)?;
        Ok(cluster)
    }

    /// Returns the number of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        usize::try_from(self.own.0.rank()).unwrap_or(0)
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn n_ranks(&self) -> usize {
        usize::try_from(self.own.0.size()).unwrap_or(1)
    }

    /// Returns the places of all ranks.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the place of this rank.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.members[self.rank()]
    }

    /// Returns the messages of this rank so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Replaces the count of messages.
    pub(crate) fn set_traffic(&self, traffic: Traffic) {
        self.traffic.set(traffic);
    }

    /// Ends the processes of all ranks at once, with an exit code. For errors that only one rank
    /// has noticed.
    pub fn abort(&self, exit_code: u8) -> ! {
        self.own.0.abort(i32::from(exit_code))
    }

    /// Returns `result` if it is `Ok` on all ranks, and an error on each rank otherwise. All ranks
    /// call the function.
    ///
    /// # Errors
    /// The error of this rank; [`Error::OnRank`] with that of the first other rank.
    pub fn agree<T, E>(&self, operation: &'static str, result: Result<T, E>) -> Result<T, E>
    where
        E: Display + From<Error>,
    {
        // The form `#` adds the causes, if the error has any.
        let message = result.as_ref().err().map(|error| format!("{error:#}"));
        let messages = self.exchange(operation, &message)?;
        let value = result?;
        let mut messages = messages.into_iter().enumerate();
        match messages.find_map(|(rank, message)| Some((rank, message?))) {
            None => Ok(value),
            Some((rank, message)) => Err(E::from(Error::OnRank {
                operation,
                rank,
                message,
            })),
        }
    }

    /// Checks that an argument is the same on all ranks. All ranks call the function.
    ///
    /// # Errors
    /// On all ranks: [`Error::RanksDiffer`]; the errors of [`exchange`](Self::exchange).
    pub fn check_same(
        &self,
        operation: &'static str,
        argument: &'static str,
        value: &str,
    ) -> Result<()> {
        let values = self.exchange(operation, &value.to_owned())?;
        match values.iter().position(|value| *value != values[0]) {
            None => Ok(()),
            Some(rank) => Err(Error::RanksDiffer {
                operation,
                argument,
                rank,
                actual: values[rank].clone(),
                expected: values[0].clone(),
            }),
        }
    }

    /// Sends a value to all ranks. Returns the values of all ranks, in their order.
    ///
    /// # Errors
    /// On all ranks: [`Error::TooLarge`] if all values together exceed the largest message;
    /// [`Error::OnRank`] for a value that cannot be encoded; [`Error::Encoding`] for bytes that
    /// cannot be decoded.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &self,
        operation: &'static str,
        value: &T,
    ) -> Result<Vec<T>> {
        let encoding = |problem: postcard::Error| Error::Encoding {
            operation,
            value: "a value of another rank".to_owned(),
            problem: problem.to_string(),
        };
        // A value that cannot be encoded is an error on all ranks.
        let own = postcard::to_allocvec(value).map_err(|problem| problem.to_string());
        let bytes = postcard::to_allocvec(&own).map_err(encoding)?;
        let all = self.all_gather(operation, &bytes)?;
        let mut values = vec![];
        for (rank, bytes) in all.iter().enumerate() {
            let bytes: Result<Vec<u8>, String> = postcard::from_bytes(bytes).map_err(encoding)?;
            let bytes = bytes.map_err(|message| Error::OnRank {
                operation,
                rank,
                message,
            })?;
            values.push(postcard::from_bytes(&bytes).map_err(encoding)?);
        }
        Ok(values)
    }

    /// Sends bytes to all ranks. Returns the bytes of all ranks.
    ///
    /// A first exchange of blocks of equal length contains the lengths, and all bytes if they are
    /// few, as those of most messages are. Otherwise a second exchange contains the bytes.
    fn all_gather(&self, operation: &'static str, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let from = Instant::now();
        let mut own = [0_u8; BLOCK_BYTES];
        let (head, rest) = own.split_at_mut(size_of::<u64>());
        head.copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        if let Some(place) = rest.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        let mut blocks = vec![0_u8; BLOCK_BYTES * self.n_ranks()];
        mpi::request::scope(|scope| {
            let world = &self.own.0;
            wait(world.immediate_all_gather_into(scope, &own[..], &mut blocks[..]));
        });
        let blocks = blocks.chunks_exact(BLOCK_BYTES).map(|block| {
            let (head, rest) = block.split_at(size_of::<u64>());
            let len = u64::from_le_bytes(head.try_into().expect("the head is a u64"));
            (usize::try_from(len).unwrap_or(usize::MAX), rest)
        });
        let short = blocks
            .clone()
            .map(|(len, rest)| rest.get(..len).map(<[u8]>::to_vec));
        let all = match short.collect::<Option<Vec<_>>>() {
            Some(all) => all,
            None => self.all_gather_long(operation, bytes, blocks.map(|(len, _)| len))?,
        };
        self.count(1, bytes.len(), from);
        Ok(all)
    }

    /// Sends bytes to all ranks, whose numbers of bytes are `lens`.
    fn all_gather_long(
        &self,
        operation: &'static str,
        bytes: &[u8],
        lens: impl Iterator<Item = usize>,
    ) -> Result<Vec<Vec<u8>>> {
        let places = lens.scan(0_usize, |end, len| {
            let start = *end;
            *end = start.saturating_add(len);
            Some(start..*end)
        });
        let places: Vec<Range<usize>> = places.collect();
        let total = places.last().map_or(0, |last| last.end);
        if total > MAX_MESSAGE_BYTES {
            return Err(Error::TooLarge {
                operation,
                value: "the values of all ranks".to_owned(),
                len_bytes: total,
                limit_bytes: MAX_MESSAGE_BYTES,
            });
        }
        let counts: Vec<Count> = places.iter().map(|place| to_count(place.len())).collect();
        let starts: Vec<Count> = places.iter().map(|place| to_count(place.start)).collect();
        let mut all = vec![0_u8; total];
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        mpi::request::scope(|scope| {
            let world = &self.own.0;
            wait(world.immediate_all_gather_varcount_into(scope, bytes, &mut parts));
        });
        Ok(places
            .into_iter()
            .map(|place| all[place].to_vec())
            .collect())
    }

    /// Sends a short message and returns at once. At most [`MAX_POSTS`] messages to each rank may
    /// be under way.
    ///
    /// # Panics
    /// If the message has more than [`MAX_POST_BYTES`].
    pub(crate) fn post(&self, rank: usize, tag: Tag, bytes: &[u8]) {
        assert!(
            bytes.len() <= MAX_POST_BYTES,
            "a posted message is too long"
        );
        let from = Instant::now();
        let to = self.own.0.process_at_rank(to_rank(rank));
        to.buffered_send_with_tag(bytes, tag);
        self.count(1, bytes.len(), from);
    }

    /// Sends a message, and waits until the receiver takes it.
    ///
    /// # Panics
    /// If the message has 2 GiB or more.
    pub(crate) fn send(&self, rank: usize, tag: Tag, bytes: &[u8]) {
        assert!(bytes.len() <= MAX_MESSAGE_BYTES, "a message is too long");
        let from = Instant::now();
        mpi::request::scope(|scope| {
            let to = self.own.0.process_at_rank(to_rank(rank));
            wait(to.immediate_send_with_tag(scope, bytes, tag));
        });
        self.count(1, bytes.len(), from);
    }

    /// Returns a message of any rank that has arrived, and the rank.
    pub(crate) fn try_receive(&self, tag: Tag) -> Option<(usize, Vec<u8>)> {
        let from = Instant::now();
        let received = self.take(tag)?;
        self.count(0, 0, from);
        Some(received)
    }

    /// Returns a message as [`try_receive`](Self::try_receive), without counting the time.
    fn take(&self, tag: Tag) -> Option<(usize, Vec<u8>)> {
        let any = self.own.0.any_process();
        let (message, status) = any.immediate_matched_probe_with_tag(tag)?;
        let len = status.count(u8_type());
        let mut bytes = vec![0_u8; usize::try_from(len).unwrap_or(0)];
        mpi::request::scope(|scope| {
            wait(message.immediate_matched_receive_into(scope, &mut bytes[..]));
        });
        Some((usize::try_from(status.source_rank()).unwrap_or(0), bytes))
    }

    /// Waits for a message of any rank. Returns the message and its rank.
    pub(crate) fn receive(&self, tag: Tag) -> (usize, Vec<u8>) {
        let from = Instant::now();
        let idle = Idle::new();
        loop {
            if let Some(received) = self.take(tag) {
                self.count(0, 0, from);
                return received;
            }
            idle.pause();
        }
    }

    /// Sends parts of `to_send` to other ranks while it receives from them into `received`: two
    /// lists of ranks and ranges.
    pub(crate) fn swap<T: mpi::traits::Equivalence>(
        &self,
        tag: Tag,
        to_send: &[(usize, &[T])],
        to_receive: Vec<(usize, &mut [T])>,
    ) {
        let from = Instant::now();
        let n_bytes: usize = to_send.iter().map(|(_, part)| size_of_val(*part)).sum();
        let n_requests = to_send.len() + to_receive.len();
        mpi::request::multiple_scope(n_requests, |scope, requests| {
            for (rank, part) in to_receive {
                let rank = self.own.0.process_at_rank(to_rank(rank));
                requests.add(rank.immediate_receive_into_with_tag(scope, part, tag));
            }
            for (rank, part) in to_send {
                let rank = self.own.0.process_at_rank(to_rank(*rank));
                requests.add(rank.immediate_send_with_tag(scope, *part, tag));
            }
            let idle = Idle::new();
            let mut done = vec![];
            while !requests.test_all(&mut done) {
                idle.pause();
            }
        });
        self.count(to_send.len(), n_bytes, from);
    }

    /// Returns MPI's handle of the communicator.
    pub(crate) fn raw(&self) -> mpi::ffi::MPI_Comm {
        self.own.0.as_raw()
    }

    /// Adds messages, and the time since `from`, to the traffic.
    fn count(&self, n_messages: usize, n_bytes: usize, from: Instant) {
        let traffic = self.traffic.get();
        self.traffic.set(Traffic {
            bytes_sent: traffic.bytes_sent + n_bytes as u64,
            messages_sent: traffic.messages_sent + n_messages as u64,
            elapsed: traffic.elapsed + from.elapsed(),
        });
    }
}

/// Waits for a request without occupying the core.
fn wait<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>) {
    let idle = Idle::new();
    while let Err(incomplete) = request.test() {
        request = incomplete;
        idle.pause();
    }
}

fn u8_type() -> mpi::datatype::SystemDatatype {
    <u8 as mpi::traits::Equivalence>::equivalent_datatype()
}

fn to_rank(rank: usize) -> Rank {
    Rank::try_from(rank).unwrap_or(Rank::MAX)
}

fn to_count(len: usize) -> Count {
    Count::try_from(len).unwrap_or(Count::MAX)
}

/// Returns the name and version of the MPI library, such as "Open MPI v4.1.4".
#[must_use]
pub fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    // Open MPI goes on with the names of packages, after a comma.
    let name = line.split(',').next().unwrap_or_default();
    name.replace('\t', " ").trim().to_owned()
}

/// Returns the CPUs that this process may use.
fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// Returns the name of the widest vector instructions of the CPU.
fn instructions() -> String {
    let levels = Level::all().into_iter();
    let mut names = levels.filter_map(|(name, level)| level.map(|_| name));
    names.next_back().unwrap_or("baseline").to_owned()
}

/// Checks that a launcher that started several processes belongs to the program's library.
fn check_launcher(n_ranks: usize) -> Result<()> {
    if n_ranks > 1 {
        return Ok(());
    }
    match launched() {
        Some((variable, n_processes)) if n_processes > 1 => Err(Error::OtherLauncher {
            n_processes,
            variable,
            library: library(),
        }),
        _ => Ok(()),
    }
}

/// The environment variables in which launchers store the number of processes that they start:
/// those of Open MPI, of MPICH and its relatives, and of `srun`. The last one is also set where
/// `mpirun` uses `srun`.
pub const LAUNCHER_SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Returns the number of processes that the launcher of this process started, and the environment
/// variable that contains this number, one of [`LAUNCHER_SIZES`]; `None` without a launcher.
#[must_use]
pub fn launched() -> Option<(&'static str, usize)> {
    LAUNCHER_SIZES.into_iter().find_map(|variable| {
        let size = std::env::var(variable).ok()?;
        Some((variable, size.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_yields_at_first_and_then_sleeps_for_a_share_of_its_time() {
        let micros = Duration::from_micros;
        assert_eq!(sleep_after(micros(49)), Duration::ZERO);
        assert_eq!(sleep_after(micros(1000)), micros(20));
        assert_eq!(sleep_after(Duration::from_secs(60)), LONGEST_SLEEP);
    }
}
