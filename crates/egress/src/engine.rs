//! The thread that carries: it serves the doors of one sandbox, dials, copies and tells what it did. Everything
//! it decides it asks the [`Gate`]; whoever started it hears by [`Event`]s.
//!
//! If it dies, nothing gets out any more: the sandbox has no other way.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Notify, mpsc, oneshot},
    task::{JoinSet, LocalSet, spawn_local},
};

use crate::{
    carry::{self, Journey},
    dns::{self, QUERIES_PER_SECOND},
    door,
    entropy::suspicion,
    event::{Event, Origin, Way},
    gate::{Gate, Slot, Target},
    guard::{MOST_LOOKUPS, Resolver},
};

/// The listening ends inside the sandbox.
#[derive(Debug)]
pub struct Doors {
    pub datagrams: OwnedFd,
    pub streams: OwnedFd,
    pub proxy: OwnedFd,
    /// Does the sandbox have IPv6?
    pub ipv6: bool,
    /// The host's search list: names that are only tried because of it are no attempt to get out.
    pub search: Vec<String>,
    /// Questions to the name server that are answered in a second.
    pub queries_per_second: u64,
}

/// A port of the host that leads inside.
#[derive(Debug)]
pub struct Published {
    pub listener: std::net::TcpListener,
    pub port: u16,
    /// Its own port was not asked for by number.
    pub any_port: bool,
}

/// So many events may wait to be heard; then whoever has more to tell waits, too.
const UNHEARD: usize = 4096;
const AT_ONCE: usize = 64;
const MOST_ALERTS: u32 = 20;
/// For connections that are cut off to be told.
const LAST_WORDS: Duration = Duration::from_secs(1);

enum Command {
    Carry {
        end: OwnedFd,
        /// The outside, if it has been dialled already.
        server: Option<OwnedFd>,
        target: Target,
        slot: Slot,
        origin: Origin,
    },
    Dial {
        ticket: u64,
        target: Target,
        slot: Slot,
        origin: Origin,
        end: oneshot::Receiver<OwnedFd>,
    },
    Publish(Published),
    /// Nothing new comes; what is under way may end until this moment.
    Finish(Instant),
    #[cfg(test)]
    Fail,
}

/// Those who came to a published port and wait for the other end, by ticket.
type Inbound = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<OwnedFd, i32>>>>>;

/// The handle of the thread.
#[derive(Debug)]
pub struct Engine {
    commands: mpsc::UnboundedSender<Command>,
    events: mpsc::Receiver<Event>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    tickets: HashMap<u64, oneshot::Sender<OwnedFd>>,
    inbound: Inbound,
    /// The thread has nothing more to say.
    over: Arc<AtomicBool>,
    next: u64,
}

impl Engine {
    /// `before` runs first in the new thread (and once only).
    pub fn start(
        gate: Arc<Gate>,
        doors: Option<Doors>,
        published: Vec<Published>,
        before: fn(),
    ) -> io::Result<Engine> {
        let (commands, heard) = mpsc::unbounded_channel();
        // Room for the end of every connection, should all be dropped at once.
        let most = usize::try_from(gate.most_connections()).unwrap_or(UNHEARD).min(1 << 17);
        let (teller, events) = mpsc::channel(UNHEARD + most);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let inbound = Arc::default();
        let teller = Teller { events: teller, wake: Arc::clone(&wake) };
        let waiting = Arc::clone(&inbound);
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, last) = (Arc::clone(&over), teller.clone());
        let thread = std::thread::Builder::new().name("lazaret-egress".to_owned()).spawn(move || {
            before();
            serve(gate, doors, published, heard, teller, waiting);
            is_over.store(true, Ordering::Release);
            last.wake();
        })?;
        Ok(Engine {
            commands,
            events,
            wake,
            thread: Some(thread),
            tickets: HashMap::new(),
            inbound,
            over,
            next: 1,
        })
    }

    /// Carries what comes from `end`, the outer end of a captured connection.
    pub fn carry(&self, end: OwnedFd, server: Option<OwnedFd>, target: Target, slot: Slot, origin: Origin) {
        let _ = self.commands.send(Command::Carry { end, server, target, slot, origin });
    }

    /// Dials first; [`Event::Dialled`] tells how it went, and [`Engine::attach`] brings the other end.
    pub fn dial(&mut self, target: Target, slot: Slot, origin: Origin) -> u64 {
        let ticket = self.next;
        self.next += 1;
        let (sender, end) = oneshot::channel();
        self.tickets.insert(ticket, sender);
        if self.commands.send(Command::Dial { ticket, target, slot, origin, end }).is_err() {
            self.tickets.remove(&ticket);
        }
        ticket
    }

    pub fn attach(&mut self, ticket: u64, end: OwnedFd) {
        if let Some(sender) = self.tickets.remove(&ticket) {
            let _ = sender.send(end);
        }
    }

    /// Nobody waits for it any more.
    pub fn abandon(&mut self, ticket: u64) {
        self.tickets.remove(&ticket);
    }

    /// One more port of the host leads inside.
    pub fn publish(&self, published: Published) {
        let _ = self.commands.send(Command::Publish(published));
    }

    /// The answer to [`Event::Inbound`]: a connection to the server inside, or the errno.
    pub fn inside(&self, ticket: u64, end: Result<OwnedFd, i32>) {
        let mut inbound = self.inbound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = inbound.remove(&ticket) {
            let _ = sender.send(end);
        }
    }

    /// Readable when there are events.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What there is to hear, but no more than can be dealt with in a moment.
    pub fn hear(&mut self) -> Vec<Event> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        let mut heard = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            heard.push(event);
            if heard.len() >= AT_ONCE {
                let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
                break;
            }
        }
        heard
    }

    /// Lets what is under way end, for a while, and then ends it. What it still has to tell goes to `hear`.
    pub fn finish(&mut self, patience: Duration, mut hear: impl FnMut(Vec<Event>)) {
        let Some(thread) = self.thread.take() else { return };
        self.tickets.clear();
        let _ = self.commands.send(Command::Finish(Instant::now() + patience));
        while !self.over.load(Ordering::Acquire) && !thread.is_finished() {
            let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
            let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = poll(&mut fds, Some(&moment));
            hear(self.hear());
        }
        let _ = thread.join();
        loop {
            let heard = self.hear();
            if heard.is_empty() {
                return;
            }
            hear(heard);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.finish(Duration::ZERO, drop);
    }
}

/// Tells events to whoever has the [`Engine`].
#[derive(Debug, Clone)]
pub struct Teller {
    events: mpsc::Sender<Event>,
    wake: Arc<OwnedFd>,
}

impl Teller {
    pub async fn tell(&self, event: Event) {
        if self.events.send(event).await.is_ok() {
            self.wake();
        }
    }

    /// Without waiting: for what is told when something is dropped.
    pub fn tell_now(&self, event: Event) {
        if self.events.try_send(event).is_ok() {
            self.wake();
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// What every task of the thread knows.
#[derive(Debug)]
pub struct Shared {
    pub gate: Arc<Gate>,
    pub resolver: Resolver,
    pub teller: Teller,
    /// Connections under way.
    pub journeys: Cell<u64>,
    idle: RefCell<Option<oneshot::Sender<()>>>,
    over: Cell<bool>,
    ending: Notify,
    alerts: Cell<u32>,
}

impl Shared {
    /// A name that may carry data is an alert, by whatever way it is asked for.
    pub async fn look_at_name(&self, name: &str) {
        if let Some(suspicion) = suspicion(name).filter(|_| self.alerts.get() < MOST_ALERTS) {
            self.alerts.set(self.alerts.get() + 1);
            let why = suspicion.to_string();
            self.teller.tell(Event::Suspicious { name: name.to_owned(), why }).await;
        }
    }

    /// Lets something go on until the sandbox is over; what is cut off then is an error, and so it is told.
    pub async fn until_over<T, E: From<io::Error>>(
        &self,
        under_way: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let ending = self.ending.notified();
        if self.over.get() {
            return Err(cut_off().into());
        }
        tokio::select! {
            ended = under_way => ended,
            () = ending => Err(cut_off().into()),
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::other("cut off when the sandbox ended")
}

/// One connection under way.
pub struct UnderWay(Rc<Shared>);

impl UnderWay {
    pub fn new(shared: &Rc<Shared>) -> UnderWay {
        shared.journeys.set(shared.journeys.get() + 1);
        UnderWay(Rc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let left = self.0.journeys.get() - 1;
        self.0.journeys.set(left);
        if left == 0
            && let Some(idle) = self.0.idle.borrow_mut().take()
        {
            let _ = idle.send(());
        }
    }
}

fn serve(
    gate: Arc<Gate>,
    doors: Option<Doors>,
    published: Vec<Published>,
    commands: mpsc::UnboundedReceiver<Command>,
    teller: Teller,
    inbound: Inbound,
) {
    let last_words = teller.clone();
    let run = std::panic::AssertUnwindSafe(|| -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MOST_LOOKUPS)
            .thread_keep_alive(Duration::from_secs(5))
            .build()?;
        let local = LocalSet::new();
        let shared = Rc::new(Shared {
            gate,
            resolver: Resolver::new(
                doors.as_ref().map_or(QUERIES_PER_SECOND, |doors| doors.queries_per_second),
            ),
            teller,
            journeys: Cell::new(0),
            idle: RefCell::default(),
            over: Cell::new(false),
            ending: Notify::new(),
            alerts: Cell::new(0),
        });
        let outcome = local.block_on(&runtime, attend(&shared, doors, published, commands, inbound));
        drop(local);
        // A look-up that hangs is not waited for.
        runtime.shutdown_background();
        outcome
    });
    let why = match std::panic::catch_unwind(run) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "an internal error".to_owned(),
    };
    let _ = last_words.events.blocking_send(Event::Failed { why });
    last_words.wake();
}

/// Starts the services and hears commands; an error when a service has ended.
async fn attend(
    shared: &Rc<Shared>,
    doors: Option<Doors>,
    published: Vec<Published>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    inbound: Inbound,
) -> io::Result<()> {
    let mut services: JoinSet<io::Result<()>> = JoinSet::new();
    if let Some(doors) = doors {
        let datagrams = UdpSocket::from_std(doors.datagrams.into())?;
        let streams = TcpListener::from_std(doors.streams.into())?;
        let proxy = TcpListener::from_std(doors.proxy.into())?;
        let server =
            Rc::new(dns::Server::new(Rc::clone(shared), doors.ipv6, doors.search, doors.queries_per_second));
        services.spawn_local(dns::datagrams(Rc::clone(&server), datagrams));
        services.spawn_local(dns::streams(server, streams));
        services.spawn_local(door::serve(Rc::clone(shared), proxy));
    }
    let tickets = Rc::new(Cell::new(0));
    let offer = |Published { listener, port, .. }: Published| {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        io::Result::Ok(publish(Rc::clone(shared), listener, port, Rc::clone(&tickets), Arc::clone(&inbound)))
    };
    for published in published {
        services.spawn_local(offer(published)?);
    }
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Carry { end, server, target, slot, origin }) => {
                    let journey = Journey::new(shared, target, slot, origin, Way::Transparent);
                    let shared = Rc::clone(shared);
                    let under_way = UnderWay::new(&shared);
                    spawn_local(async move {
                        let _under_way = under_way;
                        match (stream(end), server.map(stream)) {
                            (Ok(client), Some(Ok(server))) => {
                                journey.has_arrived(&server);
                                carry::carry(&shared, client, server, journey, Vec::new()).await;
                            }
                            (Ok(client), _) => carry::dial_and_carry(&shared, client, journey).await,
                            (Err(_), _) => {}
                        }
                    });
                }
                Some(Command::Dial { ticket, target, slot, origin, end }) => {
                    let journey = Journey::new(shared, target, slot, origin, Way::Transparent);
                    let shared = Rc::clone(shared);
                    let under_way = UnderWay::new(&shared);
                    spawn_local(async move {
                        let _under_way = under_way;
                        carry::dial_then_carry(&shared, ticket, end, journey).await;
                    });
                }
                Some(Command::Publish(published)) => drop(services.spawn_local(offer(published)?)),
                Some(Command::Finish(until)) => {
                    services.abort_all();
                    if shared.journeys.get() > 0 {
                        let (sender, mut idle) = oneshot::channel();
                        *shared.idle.borrow_mut() = Some(sender);
                        if tokio::time::timeout_at(until.into(), &mut idle).await.is_err() {
                            // What is cut off is told as such.
                            shared.over.set(true);
                            shared.ending.notify_waiters();
                            let _ = tokio::time::timeout(LAST_WORDS, idle).await;
                        }
                    }
                    return Ok(());
                }
                #[cfg(test)]
                Some(Command::Fail) => return Err(io::Error::other("made to fail")),
                None => return Ok(()),
            },
            ended = services.join_next(), if !services.is_empty() => {
                return Err(match ended {
                    Some(Ok(Err(error))) => error,
                    _ => io::Error::other("a service ended"),
                });
            }
        }
    }
}

/// A socket of the sandbox as one of this thread.
pub fn stream(end: OwnedFd) -> io::Result<TcpStream> {
    let end = std::net::TcpStream::from(end);
    end.set_nonblocking(true)?;
    let _ = end.set_nodelay(true);
    TcpStream::from_std(end)
}

/// Connections to a port of the host become connections to a server inside.
async fn publish(
    shared: Rc<Shared>,
    listener: TcpListener,
    port: u16,
    tickets: Rc<Cell<u64>>,
    inbound: Inbound,
) -> io::Result<()> {
    loop {
        let client = door::accept(&listener).await?;
        let ticket = tickets.get() + 1;
        tickets.set(ticket);
        let (sender, end) = oneshot::channel();
        inbound.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, sender);
        let under_way = UnderWay::new(&shared);
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            let _under_way = under_way;
            shared.teller.tell(Event::Inbound { ticket, port }).await;
            carry::carry_inside(&shared, client, port, end).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use lazaret_policy::{network::Rules, schema::NetworkPolicy};

    use super::*;

    fn engine() -> Engine {
        let policy = NetworkPolicy { allow_network: true, ..NetworkPolicy::default() };
        let gate = Arc::new(Gate::new(Rules::compile(&policy).unwrap()));
        Engine::start(gate, None, Vec::new(), || ()).unwrap()
    }

    #[test]
    fn a_thread_that_fails_says_so_and_carries_nothing_more() {
        let mut engine = engine();
        engine.commands.send(Command::Fail).unwrap();
        let mut fds = [PollFd::new(&engine.wake, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
        let heard = engine.hear();
        assert!(matches!(heard.as_slice(), [Event::Failed { why }] if why == "made to fail"), "{heard:?}");
        let (inner, outer) = std::os::unix::net::UnixStream::pair().unwrap();
        let target = engine_target();
        let slot = Arc::new(Gate::new(Rules::compile(&NetworkPolicy::default()).unwrap())).enter().unwrap();
        engine.carry(outer.into(), None, target, slot, Origin::Host);
        // Its other end is closed: nothing of it is kept open for ever.
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &inner, &mut byte).unwrap(), 0);
    }

    #[test]
    fn an_idle_thread_ends_at_once() {
        let mut engine = engine();
        let began = Instant::now();
        engine.finish(Duration::from_secs(10), drop);
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    fn engine_target() -> Target {
        let host = lazaret_policy::host::Host::parse("example.com").unwrap();
        Target { host, port: 80, rule: String::new() }
    }
}
