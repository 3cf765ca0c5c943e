//! A server for the files of the page.
//!
//! Role: sends the files to the browser, and receives the page's report.
//! Limits: the server listens on the local machine only, where browsers allow WebGPU without TLS.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use tiny_http::{Header, Method, Request, Response, Server};

use super::FILES;

/// Path to which the page sends its report.
const REPORT: &str = "/report";
pub(super) fn listen(port: u16) -> Result<Server> {
    Server::http(("127.0.0.1", port)).map_err(|error| anyhow!("port {port}: {error}"))
}

/// Answers a request of the page. Returns the page's report if the request contains it.
pub(super) fn answer(mut request: Request, folder: &Path) -> Result<Option<String>> {
    if *request.method() == Method::Post && request.url() == REPORT {
        let mut report = String::new();
        request.as_reader().read_to_string(&mut report)?;
        // A browser that has closed the connection needs no answer.
        let _ = request.respond(Response::empty(204));
        return Ok(Some(report));
    }
    let asked = match request.url() {
        "/" => "index.html",
        path => path.trim_start_matches('/'),
    };
    let _ = match FILES.iter().find(|(file, _)| *file == asked) {
        Some((file, kind)) => {
            let kind = Header::from_bytes("Content-Type", *kind)
                .map_err(|()| anyhow!("{kind} is not a header"))?;
            let body = fs::read(folder.join(file))?;
            request.respond(Response::from_data(body).with_header(kind))
        }
        None => request.respond(Response::empty(404)),
    };
    Ok(None)
}
