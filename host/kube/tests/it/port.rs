//! Tests the port to the API server as a whole. Each of its parts has its own file.

use std::sync::Arc;

use windlass_core::call::ports::{Ask, Port as _};
use windlass_kube::{ApiPort, Discovery, Reader, Writer};

use crate::live;
use crate::script::{Script, call};

#[tokio::test(start_paused = true)]
async fn each_ask_gets_the_answer_of_its_name() {
    let script = Script::default();
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let port = ApiPort::new(Arc::new(Reader::new(vec![])), live::reader(&script), writer);
    for ask in Ask::one_of_each() {
        let name = ask.name();
        assert_eq!(port.ask(Arc::new(call()), ask).await.name(), name);
    }
}
