//! The API server is away for a while, or seems to be there and says nothing: what changed meanwhile is caught up with.

use reqwest::StatusCode;

use super::*;
use crate::support::{Controller, Line, await_lawful, pool, with_namespace};

/// Where the controller tells whether it is ready.
async fn health_address(controller: &Controller) -> String {
    eventually(HEALS, async || {
        let log = controller.log();
        let line = log.lines().find(|line| line.contains("listening") && line.contains("--health-addr"));
        let address = line.and_then(|line| line.split("127.0.0.1:").nth(1));
        let port: String = address.into_iter().flat_map(str::chars).take_while(char::is_ascii_digit).collect();
        if port.is_empty() { Err(format!("it does not say where it listens: {log}")) } else { Ok(port) }
    })
    .await
}

/// Waits until the controller says that it is ready, or that it is not; that it lives it says all the time.
async fn await_readiness(port: &str, wanted: StatusCode) {
    eventually(BURST, async || {
        let ask = async |page: &str| reqwest::get(format!("http://127.0.0.1:{port}/{page}")).await;
        let alive = ask("healthz").await.map_err(|error| error.to_string())?.status();
        assert_eq!(alive, StatusCode::OK, "the process lives");
        let ready = ask("readyz").await.map_err(|error| error.to_string())?;
        match ready.status() {
            status if status == wanted => Ok(()),
            status => Err(format!("{status}: {}", ready.text().await.unwrap_or_default())),
        }
    })
    .await;
}

async fn caught_up_after(trouble: impl Fn(&Line)) {
    with_namespace(async |ns| {
        let line = Line::to(ns).await;
        ns.secret_for("demo").await;
        let controller = ns.serve_by(line.kubeconfig(), &["--health-addr=127.0.0.1:0"]);
        let port = health_address(&controller).await;
        let listed = ns.floating_ip("public-large").await.address;
        let public = pool("public").list([listed]).network("public-large").max_ips(4);
        ready(ns, public.served_in(&ns.name)).await;
        futures::future::join_all((0..4).map(|number| ns.create(claim(&format!("web-{number}"))))).await;
        await_bound_count(ns, 4).await;
        await_readiness(&port, StatusCode::OK).await;
        let kept = bound(ns, "web-3").await;

        trouble(&line);
        // Two go, four come, an IPAddress is deleted, the limit is raised.
        for server in ["web-0", "web-1"] {
            ns.release(&named(server)).await;
        }
        futures::future::join_all((4..8).map(|number| ns.create(claim(&format!("web-{number}"))))).await;
        ns.delete(Kind::Address, &named("web-3")).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 6}})).await;
        await_readiness(&port, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(ns.list(Kind::Claim).await.len(), 8, "nobody is served");
        assert_eq!(count_bound(ns).await, 4, "nobody is served");

        line.mend();
        ns.await_gone(Kind::Claim, &named("web-0"), BURST).await;
        ns.await_gone(Kind::Claim, &named("web-1"), BURST).await;
        await_bound_count(ns, 6).await;
        let is_whole = |address: Option<&DynamicObject>| {
            address.is_some_and(|address| address.metadata.deletion_timestamp.is_none())
        };
        ns.await_object(Kind::Address, &named("web-3"), BURST, "there again", is_whole).await;
        let given = addresses(ns).await;
        assert_distinct(&given);
        assert!(given.contains(&(named("web-3"), kept)), "the same address again: {given:?}");
        await_readiness(&port, StatusCode::OK).await;
        controller.assert_running();
        await_lawful(&[ns]).await;
    })
    .await;
}

#[tokio::test]
async fn what_changed_while_the_api_server_was_away_is_caught_up_with() {
    caught_up_after(Line::cut).await;
}

#[tokio::test]
async fn what_changed_while_the_api_server_said_nothing_is_caught_up_with() {
    caught_up_after(Line::hold).await;
}

#[tokio::test]
async fn watches_that_will_never_say_anything_again_are_noticed() {
    with_namespace(async |ns| {
        let line = Line::to(ns).await;
        ns.secret_for("demo").await;
        let controller = ns.serve_by(line.kubeconfig(), &[]);
        ready(ns, pool("public").network("public-large").served_in(&ns.name)).await;
        ns.bind(claim("web-0")).await;
        line.lose_connections();
        let begun = std::time::Instant::now();
        ns.create(claim("web-1")).await;
        ns.release(&named("web-0")).await;
        ns.await_bound(&named("web-1"), TROUBLE).await;
        ns.await_gone(Kind::Claim, &named("web-0"), TROUBLE).await;
        eprintln!("noticed after {} s", begun.elapsed().as_secs());
        controller.assert_running();
        await_lawful(&[ns]).await;
    })
    .await;
}
