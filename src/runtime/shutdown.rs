//! Graceful shutdown on a signal, in bounded time.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// For the controllers to finish the work in progress. Together with [`RELEASE_GRACE`] and [`TRACES_GRACE`] it stays
/// below a pod's default `terminationGracePeriodSeconds` of 30.
pub const CONTROLLERS_GRACE: Duration = Duration::from_secs(20);

/// For giving the Lease back.
pub const RELEASE_GRACE: Duration = Duration::from_secs(5);

/// For sending the last traces, if built with the feature `otel`.
pub const TRACES_GRACE: Duration = Duration::from_secs(3);

/// Cancels `token` on the first SIGTERM or SIGINT; the returned future resolves on the second one.
///
/// The handlers are installed when this returns: from then on a signal does not kill the process.
pub fn on_signals(token: CancellationToken) -> io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = next_signal(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "shutting down, finishing the work in progress");
        token.cancel();
        let name = next_signal(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "second signal, exiting immediately");
    })
}

async fn next_signal(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
