//! An HTTP endpoint for scrapers (feature `http`): `GET /metrics`.
//!
//! Method: one connection after the other, on a thread of its own; a client that is slow or sends too much is let go.
//! Limits: HTTP/1.1 without keep-alive, and without encryption or passwords: so only this machine is answered, unless
//! another address is asked for.

use crate::format::prometheus;
use crate::trace::Trace;
use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The port without another choice.
pub const PORT: u16 = 9835;
/// The longest request that is read.
const MAX_REQUEST_BYTES: usize = 8192;
/// The longest that a client is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// An endpoint that answers until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Serves a trace in the making: `look` gives what is to be told at a request.
///
/// An address of none is [`PORT`] of this machine, for this machine.
///
/// # Errors
/// [`Error::Sink`] if the address can't be listened at, or the system gives no thread.
pub fn serve(
    address: Option<SocketAddr>,
    look: impl Fn() -> Trace + Send + 'static,
) -> Result<Endpoint> {
    let address = address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into());
    let listener = TcpListener::bind(address).map_err(Error::Sink)?;
    let address = listener.local_addr().map_err(Error::Sink)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let thread = thread::Builder::new()
        .name("telemetry-http".to_owned())
        .spawn(move || {
            for client in listener.incoming() {
                if theirs.load(Ordering::Acquire) {
                    return;
                }
                // A client that went away is its own loss.
                let _ = client.and_then(|client| answer(client, &look));
            }
        })
        .map_err(Error::Sink)?;
    Ok(Endpoint {
        address,
        stop,
        thread: Some(thread),
    })
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
        // The thread waits for a client, so it gets one.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn answer(mut client: TcpStream, look: &impl Fn() -> Trace) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
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
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", prometheus::write(&look())),
        (Some("GET"), Some("/")) => ("200 OK", "/metrics\n".to_owned()),
        (Some("GET"), _) => ("404 Not Found", "not here; /metrics is\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        prometheus::CONTENT_TYPE,
        body.len()
    );
    client.write_all(head.as_bytes())?;
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
        let endpoint = serve(here, Trace::default).unwrap();
        let status = |request: &str| {
            let answer = ask(endpoint.address(), request);
            answer.split("\r\n").next().unwrap_or("").to_owned()
        };
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
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
}
