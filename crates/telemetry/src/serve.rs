//! An HTTP endpoint for scrapers (feature `http`): `GET /metrics`.
//!
//! Method: one connection after the other, on a thread of its own; a client that takes longer than half a second in all, or
//! sends too much, is let go.
//! Limits: HTTP/1.1 without keep-alive, and without encryption or passwords: so only this machine is answered, unless
//! another address is asked for.

use crate::format::prometheus;
use crate::trace::Trace;
use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The port without another choice.
pub const PORT: u16 = 9835;
/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 8192;
/// The longest that a client may take, from when it is heard to the end of the answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// The pause after the system refused a connection, as it does when a process has too many.
const PAUSE: Duration = Duration::from_millis(100);

/// An address that is listened at, where nobody is answered yet.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    listener: TcpListener,
}

/// An endpoint that answers until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Listens at an address; none is [`PORT`] of this machine, for this machine.
///
/// # Errors
/// [`Error::Sink`] if the address can't be listened at.
pub fn listen(address: Option<SocketAddr>) -> Result<Listener> {
    let address = address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into());
    let refused =
        |why: io::Error| Error::Sink(io::Error::new(why.kind(), format!("{address}: {why}")));
    let listener = TcpListener::bind(address).map_err(refused)?;
    Ok(Listener {
        address: listener.local_addr().map_err(refused)?,
        listener,
    })
}

impl Listener {
    /// Serves a trace in the making: `look` gives what is to be told at a request, such as [`crate::Running::newest`].
    ///
    /// When the endpoint is dropped, it waits for the client that is being answered, half a second at most.
    ///
    /// # Errors
    /// [`Error::Sink`] if the system gives no thread.
    pub fn serve(self, look: impl Fn() -> Trace + Send + 'static) -> Result<Endpoint> {
        let Self { address, listener } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("telemetry-http".to_owned())
            .spawn(move || {
                for client in listener.incoming() {
                    if theirs.load(Ordering::Acquire) {
                        return;
                    }
                    match client {
                        // A client that went away is its own loss.
                        Ok(client) => drop(answer(Patient::of(client), &look)),
                        Err(_) => thread::sleep(PAUSE),
                    }
                }
            })
            .map_err(Error::Sink)?;
        Ok(Endpoint {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Endpoint {
    /// Gives the address that it listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread waits for a client, so it gets one. Who listens at all addresses listens at this machine's, too.
        let mut here = self.address;
        if here.ip().is_unspecified() {
            here.set_ip(match here {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&here, PATIENCE).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// A client with the time until which it is waited for, whatever it does with its bytes.
struct Patient {
    client: TcpStream,
    until: Instant,
}

impl Patient {
    fn of(client: TcpStream) -> Self {
        Self {
            client,
            until: Instant::now() + PATIENCE,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Patient {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.left()?)?;
        self.client.read(part)
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.left()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}

fn answer(mut client: Patient, look: &impl Fn() -> Trace) -> io::Result<()> {
    let mut request = vec![];
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let n_read = client.read(&mut part)?;
        request.extend_from_slice(&part[..n_read]);
        if n_read == 0 || request.len() > MAX_REQUEST_BYTES {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", prometheus::write(&look())),
        ("GET" | "HEAD", "/") => ("200 OK", "/metrics\n".to_owned()),
        ("GET" | "HEAD", _) => ("404 Not Found", "not here; /metrics is\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET and HEAD\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        prometheus::CONTENT_TYPE,
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    client.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that closes before it has read all resets the connection.
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn scrapers_get_metrics_and_others_get_told_where_they_are() {
        let here = Some((Ipv4Addr::LOCALHOST, 0).into());
        let endpoint = listen(here).unwrap().serve(Trace::default).unwrap();
        let status = |request: &str| {
            let answer = ask(endpoint.address(), request);
            answer.split("\r\n").next().unwrap_or("").to_owned()
        };
        for fine in ["GET /metrics", "GET /metrics?x=1", "HEAD /metrics", "GET /"] {
            assert_eq!(
                status(&format!("{fine} HTTP/1.1\r\n\r\n")),
                "HTTP/1.1 200 OK"
            );
        }
        assert_eq!(
            status("GET /etc/passwd HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 404 Not Found"
        );
        assert_eq!(
            status("POST /metrics HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 405 Method Not Allowed"
        );
        assert_eq!(status(&"x".repeat(MAX_REQUEST_BYTES + 1)), "");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        assert!(endpoint.address().ip().is_loopback());
    }

    #[test]
    fn a_client_that_sends_a_letter_now_and_then_holds_nobody_up() {
        let here = Some((Ipv4Addr::LOCALHOST, 0).into());
        let endpoint = listen(here).unwrap().serve(Trace::default).unwrap();
        let address = endpoint.address();
        let mut slow = TcpStream::connect(address).unwrap();
        slow.set_nodelay(true).unwrap();
        let begun = Instant::now();
        let trickle = thread::spawn(move || {
            // It never gets to the end of its request, and is never still for long.
            while slow.write_all(b"G").is_ok() && begun.elapsed() < 5 * PATIENCE {
                thread::park_timeout(PATIENCE / 20);
            }
        });
        let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
        drop(endpoint);
        assert!(begun.elapsed() < 4 * PATIENCE, "{:?}", begun.elapsed());
        trickle.join().unwrap();
    }
}
