//! The end of the process: a signal asks for it, and it is bounded.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the controllers may take to finish what they are doing. With [`RELEASE_GRACE`] and [`TRACES_GRACE`] it stays
/// under the 30 s that a pod is given.
pub const CONTROLLERS_GRACE: Duration = Duration::from_secs(20);

/// How long giving the lease back may take.
pub const RELEASE_GRACE: Duration = Duration::from_secs(5);

/// How long sending the last traces may take, in a program that is built to send any.
pub const TRACES_GRACE: Duration = Duration::from_secs(3);

/// Resolves `token` on the first SIGTERM or SIGINT, and returns on the second one.
///
/// The handlers are in place when this returns, so a signal from then on does not end the process by itself.
pub fn on_signals(token: CancellationToken) -> io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = first(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "asked to end; finishing what was begun");
        token.cancel();
        let name = first(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "asked to end again; ending at once");
    })
}

async fn first(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
