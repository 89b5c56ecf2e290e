//! A scripted Messages API on loopback: the model that the real client talks to in tests.
//!
//! It says what the test's script says, streams it as the client expects, and keeps every request, so
//! that a test can read what the hooks added to the conversation. Nothing but the standard library and
//! JSON, and a port that the kernel picks.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a reply waits at most for its [`Gate`]: a test that forgot to open it fails instead of hanging.
const GATE_LIMIT: Duration = Duration::from_secs(60);

/// What the model was sent.
#[derive(Clone)]
pub struct Request {
    /// 1 for the first request of this model.
    pub n: usize,
    /// The names of the tools on offer; empty in the client's side questions.
    pub tools: Vec<String>,
    /// The conversation as sent.
    pub messages: Vec<Value>,
    /// The whole body as sent.
    pub body: Value,
}

/// What it asked for last, without the long way there.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("n", &self.n)
            .field("text", &self.text())
            .field("results", &self.results())
            .finish()
    }
}

impl Request {
    /// The content blocks after the newest assistant message: what the model is asked to react to.
    pub fn tail(&self) -> Vec<Value> {
        let after = self.messages.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
        self.messages[after..].iter().flat_map(blocks).collect()
    }

    /// The text of [`Self::tail`] outside tool results: prompts, and what hooks added.
    pub fn text(&self) -> String {
        self.tail().iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The text of the last user's message alone, outside tool results. Before a session's first answer the client's own context
    /// stands behind it.
    pub fn last(&self) -> String {
        let last = self.messages.iter().rfind(|message| message["role"] == "user").map(blocks).unwrap_or_default();
        last.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The tool results in [`Self::tail`], as (is an error, text).
    pub fn results(&self) -> Vec<(bool, String)> {
        self.tail()
            .iter()
            .filter(|block| block["type"] == "tool_result")
            .map(|block| (block["is_error"] == true, flat(&block["content"])))
            .collect()
    }

    /// Everything that was said up to now, by anyone, as one text.
    pub fn conversation(&self) -> String {
        self.messages
            .iter()
            .flat_map(blocks)
            .map(|block| match block["type"].as_str() {
                Some("tool_use") => block["input"].to_string(),
                Some("tool_result") => flat(&block["content"]),
                _ => flat(&block["text"]),
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// What was said before the model first spoke: a session's first prompt, a fresh agent's directive.
    pub fn opening(&self) -> String {
        let before = self.messages.iter().take_while(|message| message["role"] != "assistant");
        before
            .flat_map(blocks)
            .filter_map(|block| block["text"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The reply references in [`Self::text`], in order of appearance, each once.
    pub fn references(&self) -> Vec<String> {
        references(&self.text())
    }
}

/// The reply references (`<delivery>:<message>`, 8 hex digits each) in a text, in order, each once.
pub fn references(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':')) {
        let reference = word.split_once(':').is_some_and(|(delivery, message)| {
            [delivery, message]
                .iter()
                .all(|id| id.len() == 8 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        });
        if reference && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    }
    found
}

fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// Holds a reply back until the test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets every reply behind this gate go, now and later.
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let closed = lock(&self.0.0);
        drop(self.0.1.wait_timeout_while(closed, GATE_LIMIT, |open| !*open));
    }
}

/// What the model answers.
pub struct Reply {
    body: Body,
    gate: Option<Gate>,
    cached: u64,
}

/// What is said to have been read from the cache, tokens, where the script doesn't say.
const CACHED: u64 = 1_000;

enum Body {
    Text(String),
    Call { tool: &'static str, input: Value },
    Failure { status: u16, message: String },
}

impl Reply {
    /// Words, which end the turn.
    pub fn text(text: impl Into<String>) -> Self {
        Body::Text(text.into()).into()
    }

    /// A Bash call.
    pub fn bash(command: impl Into<String>) -> Self {
        let command = command.into();
        Body::Call { tool: "Bash", input: json!({"command": command, "description": "scripted"}) }.into()
    }

    /// An agent: its type, and what it is told. In the foreground its call ends with it.
    pub fn agent(kind: &str, description: &str, prompt: &str, background: bool) -> Self {
        let input = json!({"subagent_type": kind, "description": description, "prompt": prompt, "run_in_background": background});
        Body::Call { tool: "Agent", input }.into()
    }

    /// An API error of that HTTP status.
    pub fn failure(status: u16, message: impl Into<String>) -> Self {
        Body::Failure { status, message: message.into() }.into()
    }

    /// The same, a Bash call's command changed by `fill`.
    pub fn filled(mut self, fill: impl Fn(&str) -> String) -> Self {
        if let Body::Call { input, .. } = &mut self.body
            && let Some(command) = input["command"].as_str().map(&fill)
        {
            input["command"] = command.into();
        }
        self
    }

    /// Any tool's call.
    pub fn call(tool: &'static str, input: Value) -> Self {
        Body::Call { tool, input }.into()
    }

    /// The same, said to have read that many tokens from the cache: the context is a hundred larger.
    pub fn with_context(mut self, cached: u64) -> Self {
        self.cached = cached;
        self
    }

    /// The same, once the test opens `gate`.
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

impl From<Body> for Reply {
    fn from(body: Body) -> Self {
        Self { body, gate: None, cached: CACHED }
    }
}

type Script = Box<dyn FnMut(&Request) -> Reply + Send>;

struct Shared {
    script: Mutex<Script>,
    requests: Mutex<Vec<Request>>,
    arrived: Condvar,
    count: AtomicUsize,
    stopped: AtomicBool,
}

/// The running server; it stops when dropped.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

impl Model {
    /// Serves `script` on a port of the kernel's choice.
    pub fn start(script: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let shared = Arc::new(Shared {
            script: Mutex::new(Box::new(script)),
            requests: Mutex::default(),
            arrived: Condvar::new(),
            count: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let server = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&serving);
                // A client that went away in the middle is the test's business, not the server's.
                std::thread::spawn(move || drop(answer(stream, &shared)));
            }
        });
        Self { address, shared, server: Some(server) }
    }

    /// What `ANTHROPIC_BASE_URL` is to be.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request up to now.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until `wanted` holds for a request, and returns the first such; `None` after `limit`.
    pub fn wait_for(&self, limit: Duration, wanted: impl Fn(&Request) -> bool) -> Option<Request> {
        let deadline = Instant::now() + limit;
        let mut requests = lock(&self.shared.requests);
        loop {
            if let Some(found) = requests.iter().find(|request| wanted(request)) {
                return Some(found.clone());
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            requests = self.shared.arrived.wait_timeout(requests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // The accept loop only looks at the flag when someone knocks.
        drop(TcpStream::connect(self.address));
        if let Some(server) = self.server.take() {
            drop(server.join());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = None;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<usize>().ok();
            } else if name.eq_ignore_ascii_case("expect") {
                out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
        }
    }
    let body = match length {
        Some(length) => {
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            body
        }
        None => chunks(&mut reader, &path)?,
    };
    if !path.starts_with("/v1/messages") {
        return whole(&mut out, 404, &failure("not_found_error", &path));
    }
    if path.contains("count_tokens") {
        return whole(&mut out, 200, &json!({"input_tokens": 100}));
    }
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let list = |key: &str| sent[key].as_array().cloned().unwrap_or_default();
    let request = Request {
        n: shared.count.fetch_add(1, Ordering::SeqCst) + 1,
        tools: list("tools").iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect(),
        messages: list("messages"),
        body: sent.clone(),
    };
    lock(&shared.requests).push(request.clone());
    shared.arrived.notify_all();
    let reply = if request.tools.is_empty() && !request.last().contains("The answer is one JSON object") {
        // A side question of the client's own (a title, a summary of the topic); a line fork without a module has no tools either.
        Reply::text("aside")
    } else {
        (lock(&shared.script))(&request)
    };
    if let Some(gate) = &reply.gate {
        gate.wait();
    }
    let (content, stop) = match reply.body {
        Body::Failure { status, message } => {
            return whole(&mut out, status, &failure("invalid_request_error", &message));
        }
        Body::Text(text) => (json!({"type": "text", "text": text}), "end_turn"),
        Body::Call { tool, input } => (
            json!({"type": "tool_use", "id": format!("toolu_{}", request.n), "name": tool, "input": input}),
            "tool_use",
        ),
    };
    let cached = reply.cached;
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0});
    let mut message = json!({
        "id": format!("msg_{}", request.n), "type": "message", "role": "assistant", "model": sent["model"],
        "content": [content], "stop_reason": stop, "stop_sequence": null, "usage": usage,
    });
    if sent["stream"] != true {
        return whole(&mut out, 200, &message);
    }
    let (start, delta) = if content["type"] == "text" {
        (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": content["text"]}))
    } else {
        let mut start = content.clone();
        start["input"] = json!({});
        (start, json!({"type": "input_json_delta", "partial_json": content["input"].to_string()}))
    };
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for event in [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ] {
        let name = event["type"].as_str().unwrap_or_default();
        write!(out, "event: {name}\ndata: {event}\n\n")?;
    }
    out.flush()
}

/// A body sent in chunks; nothing for a request that has none (`HEAD /`).
fn chunks(reader: &mut impl BufRead, path: &str) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if !path.starts_with("/v1/messages") {
        return Ok(body);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16)
            .map_err(std::io::Error::other)?;
        let mut chunk = vec![0; size];
        reader.read_exact(&mut chunk)?;
        body.extend(chunk);
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn failure(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn whole(out: &mut impl Write, status: u16, value: &Value) -> std::io::Result<()> {
    let body = value.to_string();
    write!(
        out,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    out.flush()
}
