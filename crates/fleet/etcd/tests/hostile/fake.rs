//! A member of etcd whose answers a test decides.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Cursor;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::timeout;
use trueup_etcd::Config;

use crate::wire::{self, Field};

type Data = Cursor<Vec<u8>>;
type Watch = Box<dyn Fn(&[u8], u64) -> Option<Vec<u8>> + Send + Sync>;

/// The time that a quiet watch waits before it looks for a message again.
const PAUSE: Duration = Duration::from_millis(10);

type Answer = dyn Fn(u64, &Read) -> Vec<u8> + Send + Sync;

/// The answers of a member.
pub(crate) struct Answers {
    /// Makes the message for a read, from the read's number, from 0 on, and its parts.
    pub(crate) read: Box<Answer>,
    /// Makes a watch's next message, from the prefix and the number of the message, from 0 on. If
    /// there is none, it is called again soon.
    pub(crate) watch: Watch,
    /// The bytes of a header in each answer.
    pub(crate) header: usize,
}

/// A read, as a client requested it.
pub(crate) struct Read {
    pub(crate) from: Vec<u8>,
    /// The most entries. 0 for any number.
    pub(crate) limit: u64,
}

/// The member. It ends with the process.
pub(crate) struct Member {
    url: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    reads: AtomicU64,
    watches: AtomicU64,
}

impl Answers {
    pub(crate) fn to_reads(read: impl Fn(u64, &Read) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Answers { read: Box::new(read), watch: Box::new(|_, _| None), header: 0 }
    }

    pub(crate) fn and_watches(
        self,
        watch: impl Fn(&[u8], u64) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Answers { watch: Box::new(watch), ..self }
    }
}

impl Member {
    pub(crate) fn start(answers: Answers) -> Member {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let counts = Arc::new(Counts::default());
        let member = Arc::clone(&counts);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let answers = Arc::new(answers);
            LocalSet::new().block_on(&runtime, async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((connection, _)) = listener.accept().await {
                    tokio::task::spawn_local(serve(
                        connection,
                        Arc::clone(&answers),
                        Arc::clone(&member),
                    ));
                }
            });
        });
        Member { url, counts }
    }

    /// Returns the configuration of a client whose calls have time on a busy machine.
    pub(crate) fn config(&self) -> Config {
        let minute = Duration::from_secs(60);
        Config::new([&*self.url]).with_timeout(minute).with_connect_timeout(minute)
    }

    /// Returns the bytes of messages that it has sent and the client took.
    pub(crate) fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.counts.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn watches(&self) -> u64 {
        self.counts.watches.load(Ordering::SeqCst)
    }
}

async fn serve(connection: TcpStream, answers: Arc<Answers>, counts: Arc<Counts>) {
    let Ok(mut connection) = h2::server::Builder::new().handshake::<_, Data>(connection).await
    else {
        return;
    };
    while let Some(Ok((request, response))) = connection.accept().await {
        // Once the client is gone, nothing can be sent to it.
        let (answers, counts) = (Arc::clone(&answers), Arc::clone(&counts));
        tokio::task::spawn_local(async move {
            drop(answer(request, response, &answers, &counts).await)
        });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut response: SendResponse<Data>,
    answers: &Answers,
    counts: &Counts,
) -> Result<(), h2::Error> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let mut body = request.into_body();
    let asked = first_message(&mut body).await?;
    let mut head = Response::builder().header("content-type", "application/grpc");
    if answers.header > 0 {
        head = head.header("large", HeaderValue::from_bytes(&vec![b'x'; answers.header]).unwrap());
    }
    let mut stream = response.send_response(head.body(()).unwrap(), false)?;
    let stream = &mut stream;
    match &*method {
        "Range" => {
            let number = counts.reads.fetch_add(1, Ordering::SeqCst);
            let limit = match asked.get(&3) {
                Some(Field::Number(limit)) => *limit,
                _ => 0,
            };
            let from = text(&asked, 1);
            let read = Read { from, limit };
            send(stream, (answers.read)(number, &read), counts).await?;
        }
        "Watch" => {
            counts.watches.fetch_add(1, Ordering::SeqCst);
            let create = wire::fields(&text(&asked, 1));
            let prefix = text(&create, 1);
            send(stream, wire::created(), counts).await?;
            let mut messages = 0;
            loop {
                if let Some(message) = (answers.watch)(&prefix, messages) {
                    send(stream, message, counts).await?;
                    messages += 1;
                    continue;
                }
                let reset = poll_fn(|context| stream.poll_reset(context));
                if timeout(PAUSE, reset).await.is_ok() {
                    return Ok(());
                }
            }
        }
        // All fields have defaults, except the header.
        _ => send(stream, wire::header(wire::NEWEST), counts).await?,
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

fn text(fields: &BTreeMap<u64, Field>, field: u64) -> Vec<u8> {
    match fields.get(&field) {
        Some(Field::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

/// Sends a message, as fast as the client takes it.
async fn send(
    stream: &mut SendStream<Data>,
    message: Vec<u8>,
    counts: &Counts,
) -> Result<(), h2::Error> {
    for mut part in wire::framed(message).chunks(16 << 10) {
        while !part.is_empty() {
            stream.reserve_capacity(part.len());
            let Some(room) = poll_fn(|context| stream.poll_capacity(context)).await else {
                return Err(h2::Reason::CANCEL.into());
            };
            let (now, later) = part.split_at(room?.min(part.len()));
            counts.sent.fetch_add(now.len() as u64, Ordering::SeqCst);
            stream.send_data(Cursor::new(now.to_vec()), false)?;
            part = later;
        }
    }
    Ok(())
}

/// Reads the first message of a request, which may go on.
async fn first_message(body: &mut RecvStream) -> Result<BTreeMap<u64, Field>, h2::Error> {
    let mut bytes = Vec::new();
    loop {
        if let Some(message) = wire::unframed(&bytes) {
            return Ok(wire::fields(message));
        }
        let Some(data) = body.data().await else {
            return Err(h2::Reason::PROTOCOL_ERROR.into());
        };
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
}
