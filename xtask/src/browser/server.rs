//! A server for the files of a page.
//!
//! Role: sends the files to the browser, and receives the page's report.
//! Method: a request that cannot be answered is reported on stderr; the server goes on.
//! Limits: the server listens on the local machine only, where browsers allow WebGPU without TLS.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tiny_http::{Header, Method, Request, Response, ResponseBox, Server};

use tool_io::output::printable;

/// Path to which the page sends its report.
const REPORT: &str = "/report";
/// Largest size of a report, in bytes. A report has some kilobytes.
const MAX_REPORT_BYTES: usize = 1 << 20;

/// Names of files with their media types.
pub(super) type Files = [(&'static str, &'static str)];

/// A server for the files of a page in a folder.
pub(crate) struct PageServer {
    server: Server,
    folder: PathBuf,
    files: &'static Files,
}

/// The reason why a request is not answered as requested, with the status code of HTTP.
struct Rejection {
    status: u16,
    why: String,
}

impl PageServer {
    /// Listens on a port; the system chooses a free port instead of port 0.
    pub(crate) fn listen(port: u16, folder: PathBuf, files: &'static Files) -> Result<Self> {
        let server = Server::http(("127.0.0.1", port))
            .map_err(|error| anyhow!("server: could not listen on port {port} ({error})"))?;
        Ok(Self {
            server,
            folder,
            files,
        })
    }

    /// Returns the address of the page, with the port on which the server listens.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.server.server_addr())
    }

    /// Answers requests until the server cannot accept connections any more; returns the cause.
    pub(crate) fn serve(&self) -> io::Error {
        loop {
            match self.server.recv() {
                Ok(request) => self.answer(request),
                Err(error) => return error,
            };
        }
    }

    /// Waits for a request and sends the answer. Returns the page's report if the request contains
    /// it.
    pub(crate) fn next_report(&self, patience: Duration) -> io::Result<Option<String>> {
        let request = self.server.recv_timeout(patience)?;
        Ok(request.and_then(|request| self.answer(request)))
    }

    /// Answers a request. Returns the page's report if the request contains it.
    fn answer(&self, mut request: Request) -> Option<String> {
        let is_report = *request.method() == Method::Post && request.url() == REPORT;
        let answer = match is_report {
            true => {
                read_report(&mut request).map(|report| (Response::empty(204).boxed(), Some(report)))
            }
            false => self.file(request.url()).map(|file| (file, None)),
        };
        let (response, report) = answer.unwrap_or_else(|Rejection { status, why }| {
            let url = printable(request.url());
            tool_io::output::note(format_args!(
                "error: web: {} {url}: {why}",
                request.method()
            ));
            (Response::empty(status).boxed(), None)
        });
        // A browser that has closed the connection needs no answer.
        let _ = request.respond(response);
        report
    }

    /// Returns the response with a file of the page.
    fn file(&self, url: &str) -> Result<ResponseBox, Rejection> {
        let asked = match url {
            "/" => "index.html",
            path => path.trim_start_matches('/'),
        };
        let Some((file, kind)) = self.files.iter().find(|(file, _)| *file == asked) else {
            return Ok(Response::empty(404).boxed());
        };
        let body = fs::read(self.folder.join(file)).map_err(|error| Rejection {
            status: 500,
            why: format!(
                "could not read {} ({error})",
                self.folder.join(file).display()
            ),
        })?;
        let kind = Header::from_bytes("Content-Type", *kind)
            .expect("the types of the files are valid headers");
        Ok(Response::from_data(body).with_header(kind).boxed())
    }
}

/// Returns the body of a request.
fn read_report(request: &mut Request) -> Result<String, Rejection> {
    let rejection = |status, why| Rejection { status, why };
    let expected = request.body_length();
    let mut body = Vec::new();
    request
        .as_reader()
        // One byte more shows that the body is too large.
        .take(MAX_REPORT_BYTES as u64 + 1)
        .read_to_end(&mut body)
        .map_err(|error| rejection(400, format!("could not read the body ({error})")))?;
    let n_bytes = body.len();
    if n_bytes > MAX_REPORT_BYTES {
        let why = format!("the body is too large (more than {MAX_REPORT_BYTES} bytes)");
        return Err(rejection(413, why));
    }
    if let Some(expected) = expected.filter(|expected| *expected != n_bytes) {
        let why = format!("the body ended early ({n_bytes} bytes; expected {expected})");
        return Err(rejection(400, why));
    }
    String::from_utf8(body).map_err(|_| rejection(400, "the body is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::Write as _;
    use std::net::{Shutdown, TcpStream};
    use std::thread;

    use super::*;

    const FILES: [(&str, &str); 2] = [("index.html", "text/html"), ("web.js", "text/javascript")];

    /// Sends bytes to a server and returns the status code of its answer.
    fn send(address: &str, head: &str, body: &[u8]) -> String {
        let host = address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "{head}\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        stream.write_all(body).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    fn post(address: &str, n_bytes: usize, body: &[u8]) -> String {
        let head = format!("POST /report HTTP/1.1\r\nContent-Length: {n_bytes}");
        send(address, &head, body)
    }

    #[test]
    fn a_bad_request_does_not_end_the_server() {
        let folder = env::temp_dir().join(format!("xtask-server-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("index.html"), "page").unwrap();
        let server = PageServer::listen(0, folder.clone(), &FILES).unwrap();
        let address = server.address();
        assert!(!address.ends_with(":0/"), "{address}");
        let client = thread::spawn(move || {
            let large = vec![b' '; MAX_REPORT_BYTES + 1];
            let answers = [
                send(&address, "GET /web.js HTTP/1.1", b""),
                send(&address, "GET /../Cargo.toml HTTP/1.1", b""),
                post(&address, 2, b"\xff\xff"),
                post(&address, 4000, b"half"),
                post(&address, large.len(), &large),
                send(&address, "GET / HTTP/1.1", b""),
            ];
            (answers, post(&address, 2, b"{}"))
        });
        let patience = Duration::from_secs(60);
        let report = (0..7).find_map(|_| server.next_report(patience).unwrap());
        let (answers, last) = client.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(answers, ["500", "404", "400", "400", "413", "200"]);
        assert_eq!((report.as_deref(), last.as_str()), (Some("{}"), "204"));
    }
}
