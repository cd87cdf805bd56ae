//! The front over real sockets, with a client that writes HTTP by hand and a stand-in for the proxy.

mod client;
mod doors;
mod proxy;
mod sessions;
mod stateless;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::oneshot, task::JoinHandle};

use self::{client::Client, proxy::Proxy};
use super::{Config, HttpError, PACE, Pace, bind, token};

/// Fast where a test has to wait.
const BRISK: Pace = Pace {
    head: Duration::from_millis(400),
    body: Duration::from_millis(400),
    patience: Duration::from_millis(400),
    keep_alive: Duration::from_millis(100),
};

struct Place {
    address: SocketAddr,
    token: String,
    proxy: Arc<Proxy>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), HttpError>>,
}

impl Place {
    fn with(pace: Pace, change: impl FnOnce(&mut Config)) -> Place {
        let mut config = Config::new(token::generate().unwrap());
        change(&mut config);
        let mut bound = bind(&config).unwrap();
        bound.pace = pace;
        let address = bound.local_address();
        assert_eq!(bound.url(), format!("http://{address}/mcp"));
        let proxy = Arc::new(Proxy::default());
        let connect = Arc::clone(&proxy);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            bound.serve(move |generation| connect.connect(generation), async { drop(stopped.await) }).await
        });
        Place { address, token: config.token.reveal().to_owned(), proxy, stop: Some(stop), served }
    }

    fn new() -> Place {
        Place::with(PACE, |_| {})
    }

    async fn client(&self) -> Client {
        Client::connect(self.address, &self.token).await
    }
}

/// Everything is done on one thread, as in the program.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.unwrap() });
}

/// Waits for what another task is about to do.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen");
}
