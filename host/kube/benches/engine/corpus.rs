//! Pods as in a real cluster: Pods of Deployments in which most words repeat, but every name, UID, address, time and
//! digest is unique, so that they compress and share no better than real ones.

use std::fmt::Write as _;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

const NAMESPACES: usize = 100;
const NODES: u32 = 300;
const PODS_OF_AN_OWNER: usize = 10;
/// The time when the newest Pod was created, 2026-06-01. The other Pods are up to 90 days older.
const NEWEST: i64 = 1_780_272_000;
const NINETY_DAYS: i64 = 90 * 86_400;
/// The versions of all Pods are lower than this.
pub(crate) const LIST_VERSION: u64 = 90_000_000;

const WORDS: &str = "account alert audit auth badge basket batch billing booking broker cache campaign cart catalog \
    checkout claim click consent content coupon courier credit customer dispatch document export feed fleet forecast \
    fraud gateway geo graph identity image import index insight inventory invoice ledger letter loyalty mailer market \
    media menu message meter notice offer order partner payment payout picker planner policy portal price profile \
    promo quota quote rank rating receipt refund region report reserve return review reward risk route search seat \
    sensor session shipment signal stock stream subscription supplier survey tariff tax ticket timeline token tracker \
    transfer usage user vault vendor voucher wallet warehouse webhook widget zone";
const SUFFIXES: &str = "api worker web sync consumer scheduler proxy engine backend";
const VARIABLES: &str = "DATABASE_URL REDIS_ADDR KAFKA_BROKERS LOG_LEVEL OTEL_EXPORTER_OTLP_ENDPOINT S3_BUCKET \
    HTTP_TIMEOUT_MS MAX_CONNECTIONS FEATURE_FLAGS SENTRY_DSN JAVA_TOOL_OPTIONS GOMEMLIMIT CACHE_TTL_SECONDS \
    UPSTREAM_URL OAUTH_CLIENT_ID METRICS_PREFIX SHARD_COUNT RETRY_LIMIT REGION QUEUE_NAME";

/// Placeholders are in angle brackets, which Go never leaves unescaped in JSON.
const POD: &str = r#"{"metadata":{"name":"<name>","generateName":"<rs>-","namespace":"<namespace>","uid":"<uid>",
"resourceVersion":"<version>","generation":1,"creationTimestamp":"<created>","labels":{"app.kubernetes.io/instance":"<app>",
"app.kubernetes.io/name":"<app>","app.kubernetes.io/version":"<tag>","pod-template-hash":"<hash>","team":"<team>"},
"annotations":{"checksum/config":"<checksum>"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<rs>","uid":"<owner>","controller":true,
"blockOwnerDeletion":true}],"managedFields":<fields>},
"spec":{"volumes":[{"name":"<access>","projected":
{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt",
"items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1",
"fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"<app>","image":"<image>:<tag>",
"args":[<args>],"ports":[{"name":"http","containerPort":<port>,"protocol":"TCP"}],"env":[<env>],"resources":<resources>,
"volumeMounts":[{"name":"<access>","readOnly":true,
"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"<app>",
"serviceAccount":"<app>","nodeName":"<node>","securityContext":{},"schedulerName":"default-scheduler","tolerations":[
{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,
"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"observedGeneration":1,"phase":"Running",
"conditions":[<conditions>],"hostIP":"<host>","hostIPs":[{"ip":"<host>"}],"podIP":"<ip>","podIPs":[{"ip":"<ip>"}],
"startTime":"<created>","containerStatuses":[{"name":"<app>","state":{"running":{"startedAt":"<started>"}},"lastState":{},
"ready":true,"restartCount":<restarts>,"image":"<image>:<tag>","imageID":"<image>@sha256:<digest>",
"containerID":"containerd://<container>","started":true,"resources":<resources>}],"qosClass":"Burstable"}}"#;

const RESOURCES: &str = r#"{"limits":{"memory":"<memory>Mi"},"requests":{"cpu":"<cpu>m","memory":"<memory>Mi"}}"#;
const CONDITION: &str =
    r#"{"type":"<type>","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"<at>"}"#;

const FIELDS: &str = r#"[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"<created>",
"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/instance":{},
"f:app.kubernetes.io/name":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"<owner>\"}":{}}},
"f:spec":{"f:containers":{"k:{\"name\":\"<app>\"}":{".":{},"f:args":{},"f:env":{".":{}<envfields>},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":<port>,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:serviceAccountName":{}}}},{"manager":"kube-scheduler","operation":"Update",
"apiVersion":"v1","time":"<created>","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{".":{},
"k:{\"type\":\"PodScheduled\"}":{".":{},"f:status":{},"f:type":{}}}}},"subresource":"status"},{"manager":"kubelet",
"operation":"Update","apiVersion":"v1","time":"<started>","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{
"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},
"f:lastProbeTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:phase":{},"f:podIP":{},
"f:podIPs":{},"f:startTime":{}}},"subresource":"status"}]"#;

/// A Pod as an item of a list, without `apiVersion` and `kind`.
pub(crate) struct Pod {
    /// `namespace/name`, as in etcd's key.
    pub(crate) key: String,
    pub(crate) json: String,
    /// The length of the value of `managedFields`.
    pub(crate) managed_fields: usize,
}

/// `count` Pods in the order of etcd's keys. The same `seed` leads to the same Pods.
pub(crate) fn pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut random = SmallRng::seed_from_u64(seed);
    let random = &mut random;
    let namespaces: Vec<_> =
        (0..NAMESPACES).map(|number| format!("{}-{}-{number}", pick(random, WORDS), pick(random, WORDS))).collect();
    let pod = one_line(POD);
    let fields = one_line(FIELDS);
    let mut pods = Vec::with_capacity(count);
    while pods.len() < count {
        let namespace = &namespaces[random.random_range(0..NAMESPACES)];
        let owner = Owner::new(random, namespace, &pod, &fields);
        let more = PODS_OF_AN_OWNER.min(count - pods.len());
        pods.extend((0..more).map(|_| owner.pod(random, namespace)));
    }
    pods.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    pods
}

/// A `ReplicaSet` with the values that its Pods share.
struct Owner {
    name: String,
    pod: String,
    fields: String,
}

impl Owner {
    fn new(random: &mut SmallRng, namespace: &str, pod: &str, fields: &str) -> Self {
        let app = format!("{}-{}", pick(random, WORDS), pick(random, SUFFIXES));
        let hash = suffix(random, 10);
        let name = format!("{app}-{hash}");
        let (env, env_fields) = env(random, &app);
        let resources = RESOURCES
            .replace("<memory>", &(64 * random.random_range(1..32)).to_string())
            .replace("<cpu>", &(10 * random.random_range(1..200)).to_string());
        let image = format!("registry.{}.example.com/{}/{app}", pick(random, WORDS), pick(random, WORDS));
        let port = random.random_range(8000..9999).to_string();
        let tag = format!(
            "{}.{}.{}-{}",
            random.random_range(0..9),
            random.random_range(0..40),
            random.random_range(0..20),
            &hex(random, 7)
        );
        let values = [
            ("rs", name.clone()),
            ("namespace", namespace.to_owned()),
            ("app", app),
            ("hash", hash),
            ("team", pick(random, WORDS).to_owned()),
            ("checksum", hex(random, 64)),
            ("port", port.clone()),
            ("owner", uuid(random)),
            ("image", image),
            ("tag", tag),
            ("args", args(random, &port)),
            ("env", env),
            ("envfields", env_fields),
            ("resources", resources),
            ("digest", hex(random, 64)),
        ];
        Self { name, pod: fill(pod, &values), fields: fill(fields, &values) }
    }

    fn pod(&self, random: &mut SmallRng, namespace: &str) -> Pod {
        let name = format!("{}-{}", self.name, suffix(random, 5));
        let created = NEWEST - random.random_range(0..NINETY_DAYS);
        let started = created + random.random_range(2..90);
        let times = [("created", time(created)), ("started", time(started))];
        let node = random.random_range(0..NODES);
        let conditions: Vec<_> =
            [("PodReadyToStartContainers", started - 1), ("Initialized", created), ("Ready", started)]
                .into_iter()
                .chain([("ContainersReady", started), ("PodScheduled", created)])
                .map(|(kind, at)| CONDITION.replace("<type>", kind).replace("<at>", &time(at)))
                .collect();
        let fields = fill(&self.fields, &times);
        let managed_fields = fields.len();
        let [created, started] = times;
        let values = [
            ("name", name.clone()),
            ("uid", uuid(random)),
            ("version", random.random_range(LIST_VERSION / 9..LIST_VERSION).to_string()),
            created,
            started,
            ("fields", fields),
            ("access", format!("kube-api-access-{}", suffix(random, 5))),
            ("node", format!("ip-10-{}-{}-{}.ec2.internal", node % 7, node / 7, (node * 37) % 251)),
            ("host", format!("10.{}.{}.{}", node % 7, node / 7, (node * 37) % 251)),
            ("ip", format!("10.{}.{}.{}", 128 + node % 64, random.random_range(0..256), random.random_range(1..255))),
            ("container", hex(random, 64)),
            ("conditions", conditions.join(",")),
            ("restarts", random.random_range(0..3).to_string()),
        ];
        Pod { key: format!("{namespace}/{name}"), json: fill(&self.pod, &values), managed_fields }
    }
}

/// The environment of a container, and its part of the field manager's tree.
fn env(random: &mut SmallRng, app: &str) -> (String, String) {
    let mut text =
        r#"{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}"#.to_owned();
    let mut fields = r#","k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{}}"#.to_owned();
    let count = random.random_range(2..6);
    let first = random.random_range(0..20);
    for name in VARIABLES.split(' ').cycle().skip(first).filter(|name| !name.is_empty()).take(count) {
        let value = match random.random_range(0..4) {
            0 => format!("{}:{}", random.random_range(1..9), random.random_range(100..99_999)),
            1 => format!(
                "https://{}.{}.svc:8443/v1?key={}\\u0026n={}",
                pick(random, WORDS),
                pick(random, WORDS),
                hex(random, 12),
                random.random_range(1..99)
            ),
            2 => format!("{{\\\"{}\\\":{}}}", pick(random, WORDS), random.random_range(1..1000)),
            _ => format!("{app}.{}.internal:{}", pick(random, WORDS), random.random_range(1000..9999)),
        };
        let _ = write!(text, r#",{{"name":"{name}","value":"{value}"}}"#);
        let _ = write!(fields, r#","k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#);
    }
    (text, fields)
}

fn args(random: &mut SmallRng, port: &str) -> String {
    let mut text = format!(r#""--listen=:{port}""#);
    for _ in 0..random.random_range(1..5) {
        let _ =
            write!(text, r#","--{}-{}={}""#, pick(random, WORDS), pick(random, WORDS), random.random_range(1..9999));
    }
    text
}

/// `template` with the placeholders in `values` filled in. Other placeholders stay.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len() * 3 / 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let (name, after) = after.split_once('>').expect("a placeholder ends");
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => text.push_str(value),
            None => text.extend(["<", name, ">"]),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

fn one_line(template: &str) -> String {
    template.replace('\n', "")
}

fn pick<'a>(random: &mut SmallRng, words: &'a str) -> &'a str {
    let count = words.split_whitespace().count();
    words.split_whitespace().nth(random.random_range(0..count)).expect("below the count")
}

fn of_alphabet(random: &mut SmallRng, alphabet: &[u8], length: usize) -> String {
    (0..length).map(|_| char::from(alphabet[random.random_range(0..alphabet.len())])).collect()
}

/// A suffix as made by `k8s.io/apimachinery/pkg/util/rand`.
fn suffix(random: &mut SmallRng, length: usize) -> String {
    of_alphabet(random, b"bcdfghjklmnpqrstvwxz2456789", length)
}

fn hex(random: &mut SmallRng, length: usize) -> String {
    of_alphabet(random, b"0123456789abcdef", length)
}

fn uuid(random: &mut SmallRng) -> String {
    let mut part = |length| hex(random, length);
    format!("{}-{}-4{}-a{}-{}", part(8), part(4), part(3), part(3), part(12))
}

fn time(second: i64) -> String {
    jiff::Timestamp::from_second(second).expect("in range").to_string()
}
