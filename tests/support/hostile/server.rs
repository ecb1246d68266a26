//! The servers of all hostile tenants, in a thread of their own: a test that waits for them does not slow them down, and
//! they do not slow down the test.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::liar::{Attack, Liar};
use super::victim::Victim;
use super::wire::{read_request, write};

/// End when they are dropped.
pub(super) struct HostileServers {
    runtime: Option<Runtime>,
    liars: Vec<Arc<Liar>>,
}

impl HostileServers {
    /// One server for each attack.
    pub(super) fn start(attacks: &[Attack], victim: Victim, seed: u64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("hostile").enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let victim = Arc::new(victim);
        let start = |(number, attack): (u64, &Attack)| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("some port is free");
            listener.set_nonblocking(true).expect("a socket can be set to non-blocking");
            let url = format!("http://{}", listener.local_addr().expect("it is bound"));
            let liar = Arc::new(Liar::new(*attack, url, victim.clone(), seed.wrapping_add(number)));
            runtime.spawn(serve(listener, liar.clone()));
            liar
        };
        let liars = (0..).zip(attacks).map(start).collect();
        Self { runtime: Some(runtime), liars }
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = &str> {
        self.liars.iter().map(|liar| liar.url())
    }

    /// How often each kind of call came to each server.
    pub(super) fn calls(&self) -> Vec<BTreeMap<String, usize>> {
        self.liars.iter().map(|liar| liar.calls().clone()).collect()
    }
}

impl Drop for HostileServers {
    fn drop(&mut self) {
        // Not by dropping it, which waits, and may not be done in a test's own runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, liar: Arc<Liar>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("it is non-blocking");
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Of open files there are none left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let liar = liar.clone();
        tokio::spawn(async move {
            if let Some(greeting) = liar.greet() {
                write(&mut stream, greeting).await;
                return;
            }
            while let Some(request) = read_request(&mut stream).await {
                let answer = liar.answer(&request);
                if !write(&mut stream, answer).await {
                    return;
                }
            }
        });
    }
}
