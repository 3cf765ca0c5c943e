//! An HTTP endpoint for scrapers (feature `http`): `GET /metrics`.
//!
//! Method: one thread serves all connections with non-blocking I/O. It sleeps for 2 ms while all
//! clients are silent, and blocks while there are no clients. A client is disconnected if its
//! request is too long or if it takes longer than half a second in total; if there are too many
//! clients, the oldest one is disconnected. Silent clients therefore do not delay a scrape.
//! Limits: HTTP/1.1 without keep-alive, encryption or passwords. The default address accepts
//! connections from this machine only.

use crate::format::prometheus;
use crate::{Error, Result, Snapshot};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The default port.
pub const PORT: u16 = 9835;
/// Maximum length of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 8192;
/// Timeout of a client, from the connection to the end of the response.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The pause while all clients are silent.
const NAP: Duration = Duration::from_millis(2);
/// Maximum number of simultaneous clients; a further client replaces the oldest client.
const MAX_CLIENTS: usize = 256;
/// The pause after a failed `accept`, for example if the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A bound port that does not serve clients yet.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    listener: TcpListener,
}

/// A running endpoint, which serves clients until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Binds a listener to an address (default: [`PORT`] on the loopback interface, 127.0.0.1).
///
/// # Errors
/// [`Error::Endpoint`] if the address cannot be bound.
pub fn listen(address: Option<SocketAddr>) -> Result<Listener> {
    let address = address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into());
    let endpoint_error = |why| Error::Endpoint { address, why };
    let listener = TcpListener::bind(address).map_err(endpoint_error)?;
    Ok(Listener {
        address: listener.local_addr().map_err(endpoint_error)?,
        listener,
    })
}

impl Listener {
    /// Starts serving on a separate thread. `look` is called for each scrape and returns its
    /// content, for example [`crate::Running::snapshot`] or [`crate::Running::latest`].
    ///
    /// Dropping the endpoint waits for responses that have begun, for at most half a second.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if the system cannot create a thread.
    pub fn serve<S: Into<Snapshot>>(
        self,
        look: impl Fn() -> S + Send + 'static,
    ) -> Result<Endpoint> {
        let Self { address, listener } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let answer = move || prometheus::write_snapshot(&look().into());
        let thread = thread::Builder::new()
            .name("telemetry-http".to_owned())
            .spawn(move || serve(&listener, &theirs, &answer))
            .map_err(|why| Error::Endpoint { address, why })?;
        Ok(Endpoint {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Endpoint {
    /// Returns the bound address, including the actual port if port 0 was requested.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread may block in `accept`, so a connection wakes it. A listener on all interfaces
        // is reached through the loopback interface.
        let mut here = self.address;
        if here.ip().is_unspecified() {
            here.set_ip(match here {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&here, TIMEOUT).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Serves clients until a stop is requested and all begun responses are sent.
fn serve(listener: &TcpListener, stop: &AtomicBool, metrics: &impl Fn() -> String) {
    let mut clients: Vec<Client> = vec![];
    loop {
        if stop.load(Ordering::Acquire) {
            clients.retain(|client| !client.answer.is_empty());
            if clients.is_empty() {
                return;
            }
        } else {
            accept(listener, &mut clients);
        }
        let mut has_moved = false;
        clients.retain_mut(|client| {
            let moved = client.advance(metrics);
            has_moved |= !matches!(moved, Ok(false));
            moved.is_ok()
        });
        if !clients.is_empty() && !has_moved {
            thread::sleep(NAP);
        }
    }
}

/// Accepts all pending connections; if there are no clients, blocks until the first connection.
fn accept(listener: &TcpListener, clients: &mut Vec<Client>) {
    loop {
        // With clients to serve, `accept` must not block; without clients it should.
        let is_waiting = listener.set_nonblocking(!clients.is_empty());
        match is_waiting.and_then(|()| listener.accept()) {
            Ok((stream, _)) => {
                if clients.len() == MAX_CLIENTS {
                    clients.remove(0);
                }
                // A client that has already disconnected is ignored.
                clients.extend(Client::new(stream).ok());
                if clients.is_empty() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                if clients.is_empty() {
                    thread::sleep(PAUSE);
                }
                return;
            }
        }
    }
}

/// A client's connection, read and written without blocking.
struct Client {
    stream: TcpStream,
    /// Time at which the request times out.
    until: Instant,
    request: Vec<u8>,
    /// Response; empty until the request is complete.
    answer: Vec<u8>,
    n_sent: usize,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            until: Instant::now() + TIMEOUT,
            request: vec![],
            answer: vec![],
            n_sent: 0,
        })
    }

    /// Reads and writes as much as possible without blocking, and returns whether any bytes moved.
    ///
    /// # Errors
    /// Any error means that the connection should be closed: the response is sent, the request is
    /// too long, the timeout has passed, or the client has disconnected.
    fn advance(&mut self, metrics: &impl Fn() -> String) -> io::Result<bool> {
        if Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut has_moved = false;
        while self.answer.is_empty() {
            let mut part = [0; 1024];
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n_read) => self.request.extend_from_slice(&part[..n_read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_moved),
                Err(error) => return Err(error),
            }
            has_moved = true;
            // An empty line ends the head of a request; a body is not read.
            if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                self.answer = answer(&self.request, metrics);
            } else if self.request.len() > MAX_REQUEST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        while self.n_sent < self.answer.len() {
            match self.stream.write(&self.answer[self.n_sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n_written) => self.n_sent += n_written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_moved),
                Err(error) => return Err(error),
            }
            has_moved = true;
        }
        // The response is sent: end the connection.
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}

/// Returns the response to a complete request.
fn answer(request: &[u8], metrics: &impl Fn() -> String) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", metrics()),
        ("GET" | "HEAD", "/") => ("200 OK", "/metrics\n".to_owned()),
        ("GET" | "HEAD", _) => (
            "404 Not Found",
            "not found; metrics are at /metrics\n".to_owned(),
        ),
        _ => (
            "405 Method Not Allowed",
            "method not allowed (expected GET or HEAD)\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        prometheus::CONTENT_TYPE,
        body.len()
    );
    let body = if method == "HEAD" { "" } else { &body };
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that closes the connection before reading everything causes a reset.
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn scrapers_receive_metrics_and_other_clients_their_address() {
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
            // The client never completes its request, but is never silent for long.
            while slow.write_all(b"G").is_ok() && begun.elapsed() < 5 * TIMEOUT {
                thread::park_timeout(TIMEOUT / 20);
            }
        });
        let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(begun.elapsed() < 2 * TIMEOUT, "{:?}", begun.elapsed());
        drop(endpoint);
        assert!(begun.elapsed() < 4 * TIMEOUT, "{:?}", begun.elapsed());
        trickle.join().unwrap();
    }

    #[test]
    fn silent_clients_do_not_delay_a_scrape() {
        let here = Some((Ipv4Addr::LOCALHOST, 0).into());
        let endpoint = listen(here).unwrap().serve(Trace::default).unwrap();
        let address = endpoint.address();
        // More clients than can be served at once.
        let silent: Vec<_> = (0..300)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let begun = Instant::now();
        let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
        drop((endpoint, silent));
    }
}
