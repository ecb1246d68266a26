//! Requests and answers as bytes: HTTP/1.1 by hand, since a library would correct what is wrong.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// In bytes: a request carries the token, which may be as long as the header block of an answer.
const MAX_REQUEST: usize = 1 << 20;

pub(super) struct Request {
    pub(super) method: String,
    /// With its query.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// One part of an answer.
#[derive(Clone)]
pub(super) enum Step {
    Send(Bytes),
    /// Byte by byte, with this pause after each.
    Drip(Bytes, Duration),
    Pause(Duration),
    /// Again and again, for as long as the client reads.
    Forever(Bytes),
    /// Nothing more: the client has to give up.
    Hold,
    Reset,
}

#[derive(Clone)]
pub(super) struct Answer {
    pub(super) steps: Vec<Step>,
    /// Whether the connection can be used for another request.
    pub(super) is_complete: bool,
}

impl Answer {
    /// After these steps the connection is closed.
    pub(super) fn broken(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), is_complete: false }
    }

    pub(super) fn complete(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), is_complete: true }
    }

    /// Closes the connection, or resets it, without a byte.
    pub(super) fn none(is_reset: bool) -> Self {
        Self::broken(is_reset.then_some(Step::Reset))
    }
}

/// An answer that is not wrong yet.
#[derive(Clone)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Response {
    pub(super) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: vec![("Content-Type".into(), "application/json".into())], body: body.into() }
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The status line and the headers, without the end of the block and without a length.
    pub(super) fn open_head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} Lie\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    /// The head of an answer whose body has this length.
    pub(super) fn head(&self, length: usize) -> Step {
        Step::Send(format!("{}Content-Length: {length}\r\n\r\n", self.open_head()).into())
    }

    /// As a server would send it.
    pub(super) fn whole(self) -> Answer {
        Answer::complete([self.head(self.body.len()), Step::Send(self.body)])
    }
}

/// The next request on a connection; none when it has ended, or is none.
pub(super) async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        read_more(stream, &mut read).await?;
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let mut line = head.lines().next()?.split(' ');
    let (method, path) = (line.next()?.to_owned(), line.next()?.to_owned());
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body_end = end + 4 + length.unwrap_or_default();
    while read.len() < body_end {
        read_more(stream, &mut read).await?;
    }
    Some(Request { method, path, body: read[end + 4..body_end].to_vec() })
}

async fn read_more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let count = stream.read_buf(read).await.ok()?;
    (count > 0 && read.len() < MAX_REQUEST).then_some(())
}

/// Writes an answer. Returns whether the connection can be used again.
pub(super) async fn write(stream: &mut TcpStream, answer: Answer) -> bool {
    for step in answer.steps {
        let written = match step {
            Step::Send(bytes) => stream.write_all(&bytes).await,
            Step::Drip(bytes, pause) => drip(stream, &bytes, pause).await,
            Step::Pause(pause) => {
                sleep(pause).await;
                Ok(())
            }
            Step::Forever(bytes) => repeat(stream, &bytes).await,
            Step::Hold => {
                hold(stream).await;
                return false;
            }
            Step::Reset => {
                // Data that is dropped unsent makes the kernel send RST.
                let _reset = stream.set_zero_linger();
                return false;
            }
        };
        if written.is_err() {
            return false;
        }
    }
    answer.is_complete
}

async fn drip(stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        sleep(pause).await;
    }
    Ok(())
}

/// Ends with an error, when the client has closed the connection.
async fn repeat(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(bytes).await?;
        // Leaves the processor to the servers under test.
        sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the client closes the connection.
pub(super) async fn hold(stream: &mut TcpStream) {
    let mut read = [0; 4096];
    while matches!(stream.read(&mut read).await, Ok(count) if count > 0) {}
}
