//! The API server is unreachable for a while, or does not answer: the controller handles what changed meanwhile.

use reqwest::StatusCode;

use super::*;
use crate::support::{ApiServerProxy, pool, with_namespace};

/// Waits until `/readyz` has this status; `/healthz` is OK all the time.
async fn await_readiness(address: &str, wanted: StatusCode) {
    await_ready_page(address, wanted, "").await;
}

/// Waits until `/readyz` has this status, and this line.
async fn await_ready_page(address: &str, wanted: StatusCode, line: &str) {
    eventually(BURST, async || {
        let ask = async |page: &str| reqwest::get(format!("http://{address}/{page}")).await;
        let alive = ask("healthz").await.map_err(|error| error.to_string())?.status();
        assert_eq!(alive, StatusCode::OK, "the process is alive");
        let ready = ask("readyz").await.map_err(|error| error.to_string())?;
        let (status, page) = (ready.status(), ready.text().await.unwrap_or_default());
        if status == wanted && page.contains(line) { Ok(()) } else { Err(format!("{status}: {page}")) }
    })
    .await;
}

async fn changes_during_outage_are_handled(begin_outage: impl Fn(&ApiServerProxy)) {
    with_namespace(async |ns| {
        let proxy = ApiServerProxy::start(ns).await;
        ns.create_secret_for("demo").await;
        let controller = ns.start_controller(proxy.kubeconfig(), &["--health-addr=127.0.0.1:0"]);
        let health = controller.address_of("--health-addr").await;
        let listed = ns.create_floating_ip("public-large").await.address;
        let public = pool("public").list([listed]).network("public-large").max_ips(4);
        create_ready_pool(ns, public.served_in(&ns.name)).await;
        create_claims(ns, 0..4).await;
        await_bound_count(ns, 4, BURST).await;
        await_readiness(&health, StatusCode::OK).await;
        let kept = await_bound(ns, "web-3").await;

        begin_outage(&proxy);
        // Two claims are released, four created; an IPAddress is deleted, the limit is raised.
        for server in ["web-0", "web-1"] {
            ns.release(&claim_name(server)).await;
        }
        create_claims(ns, 4..8).await;
        ns.delete(Kind::Address, &claim_name("web-3")).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 6}})).await;
        await_readiness(&health, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!((ns.list(Kind::Claim).await.len(), count_bound(ns).await), (8, 4), "no claim is served");

        proxy.restore();
        ns.await_gone(Kind::Claim, &claim_name("web-0"), BURST).await;
        ns.await_gone(Kind::Claim, &claim_name("web-1"), BURST).await;
        await_bound_count(ns, 6, BURST).await;
        let is_whole = |address: Option<&DynamicObject>| {
            address.is_some_and(|address| address.metadata.deletion_timestamp.is_none())
        };
        ns.await_object(Kind::Address, &claim_name("web-3"), BURST, "recreated", is_whole).await;
        let given = bound_addresses(ns).await;
        assert_distinct(&given);
        assert!(given.contains(&(claim_name("web-3"), kept)), "it has the same address: {given:?}");
        await_readiness(&health, StatusCode::OK).await;
        controller.assert_running();
    })
    .await;
}

/// Nothing is reconciled then, and so no condition says it.
#[tokio::test]
async fn controller_whose_watches_are_interrupted_is_not_ready() {
    with_namespace(async |ns| {
        let proxy = ApiServerProxy::start(ns).await;
        let controller = ns.start_controller(proxy.kubeconfig(), &["--health-addr=127.0.0.1:0"]);
        let health = controller.address_of("--health-addr").await;
        await_ready_page(&health, StatusCode::OK, "[+] caches").await;
        proxy.disconnect();
        await_ready_page(&health, StatusCode::SERVICE_UNAVAILABLE, "[-] caches").await;
        proxy.restore();
        await_ready_page(&health, StatusCode::OK, "[+] caches").await;
    })
    .await;
}

#[tokio::test]
async fn changes_made_while_the_api_server_was_unreachable_are_handled() {
    changes_during_outage_are_handled(ApiServerProxy::disconnect).await;
}

#[tokio::test]
async fn changes_made_while_the_api_server_did_not_answer_are_handled() {
    changes_during_outage_are_handled(ApiServerProxy::hold).await;
}

#[tokio::test]
async fn silently_broken_watches_are_replaced() {
    with_namespace(async |ns| {
        let proxy = ApiServerProxy::start(ns).await;
        ns.create_secret_for("demo").await;
        let controller = ns.start_controller(proxy.kubeconfig(), &[]);
        create_ready_pool(ns, pool("public").network("public-large").served_in(&ns.name)).await;
        ns.bind(claim("web-0")).await;
        proxy.silence_open_connections();
        let begun = std::time::Instant::now();
        ns.create(claim("web-1")).await;
        ns.release(&claim_name("web-0")).await;
        ns.await_bound(&claim_name("web-1"), AFTER_LOST_CALLS).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), AFTER_LOST_CALLS).await;
        eprintln!("handled after {} s", begun.elapsed().as_secs());
        controller.assert_running();
    })
    .await;
}
