//! A client that sends exactly what it is told to, and a server to send it to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use s2m_serve::{Request, Server, Stopper};
use serde_json::{Value, json};

/// A server that runs until this is dropped.
pub(crate) struct Page {
    pub(crate) port: u16,
    pub(crate) token: String,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    pub(crate) fn why(&self) -> String {
        self.json()["why"].as_str().unwrap_or_default().to_owned()
    }
}

/// One server-sent event.
pub(crate) type Event = (String, Value);

impl Page {
    pub(crate) fn open(model: &str) -> Self {
        Self::of(&Request::new(model))
    }

    pub(crate) fn of(request: &Request<'_>) -> Self {
        let server = Server::open(request).expect("the model can be served");
        let address = server.address();
        let (place, token) = address.split_once("/#").expect("the address has a token");
        let port = place.rsplit(':').next().and_then(|port| port.parse().ok());
        let (port, token) = (port.expect("the address has a port"), token.to_owned());
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run().expect("it runs"));
        Self {
            port,
            token,
            stopper,
            thread: Some(thread),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let limit = Some(Duration::from_mins(1));
        stream.set_read_timeout(limit).expect("a time is a time");
        stream
    }

    /// Sends these bytes and reads to the end; none where the connection is closed without an answer.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        // A server that has seen enough may close before all is sent.
        let _ = stream.write_all(bytes);
        read(stream)
    }

    pub(crate) fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ns2m-token: {}\r\n",
            self.port, self.token
        )
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = format!("{}\r\n", self.head("GET", path));
        self.raw(request.as_bytes()).expect("it answers")
    }

    pub(crate) fn posted(&self, path: &str, visitor: &str, body: &Value) -> String {
        let (head, body) = (self.head("POST", path), body.to_string());
        format!(
            "{head}s2m-visitor: {visitor}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    pub(crate) fn post(&self, path: &str, visitor: &str, body: &Value) -> Answer {
        let request = self.posted(path, visitor, body);
        self.raw(request.as_bytes()).expect("it answers")
    }

    pub(crate) fn enter(&self) -> String {
        let entered = self.post("/api/enter", "", &json!({})).json();
        entered["visitor"]
            .as_str()
            .expect("a visitor has a name")
            .to_owned()
    }

    pub(crate) fn state(&self) -> Value {
        self.get("/api/state").json()
    }

    /// Draws to the end: all events.
    pub(crate) fn draw(&self, visitor: &str, asked: &Value) -> Vec<Event> {
        let answer = self.post("/api/draw", visitor, asked);
        assert_eq!(answer.status, 200, "{answer:?}");
        events(&answer.body)
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        while !holds(&self.state()) {
            assert!(began.elapsed() < Duration::from_mins(1), "{what}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the server ended well");
        }
    }
}

pub(crate) fn asked(query: &str, n: usize, seed: u64) -> Value {
    json!({ "query": query, "n": n, "seed": seed, "purity": null })
}

/// Reads an answer to its end.
pub(crate) fn read(stream: TcpStream) -> Option<Answer> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head += &line.to_ascii_lowercase();
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        while let Some(chunk) = next_chunk(&mut reader) {
            body.extend(chunk);
        }
    } else {
        reader.read_to_end(&mut body).ok()?;
    }
    Some(Answer { status, head, body })
}

/// The next chunk of a body; none at its end, or where it breaks off.
pub(crate) fn next_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let size = usize::from_str_radix(line.trim(), 16)
        .ok()
        .filter(|size| *size > 0)?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    Some(chunk)
}

pub(crate) fn events(body: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(body);
    let each = text.split("\n\n").filter_map(|event| {
        let (name, data) = event.split_once('\n')?;
        let data = serde_json::from_str(data.strip_prefix("data: ")?).ok()?;
        Some((name.strip_prefix("event: ")?.to_owned(), data))
    });
    each.collect()
}

/// What somebody has who follows the events: samples, and the last word.
pub(crate) fn followed(events: &[Event]) -> (Vec<Value>, Event) {
    let mut samples = Vec::new();
    for (name, data) in events {
        match name.as_str() {
            "accepted" => samples.extend(data.as_array().expect("a list").iter().cloned()),
            "withdrawn" => {
                for place in data.as_array().expect("a list").iter().rev() {
                    samples.remove(place.as_u64().expect("a place") as usize);
                }
            }
            _ => {}
        }
    }
    (
        samples,
        events.last().expect("there is a last word").clone(),
    )
}
