import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePorts, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { ROOT } from "../src/root.ts";
import { describeMissingContainers } from "./containers.ts";

const IMAGE = "prom/prometheus:v2.42.0";
const lack = describeMissingContainers([IMAGE]);

/** Events whose first occurrence in a process triggers its alert. */
const EVENTS = {
  MusterStoreRefuses: `db_client_operation_duration_count{error_type="limit_exceeded",db_collection_name="sessions"} 1`,
  MusterNatsRefuses: `muster_bus_refusals_total{muster_bus_refused="publish"} 1`,
  MusterRequestsRefused: `muster_bus_requests_refused_total{rpc_service="session",muster_bus_user="cli",muster_bus_reason="rate"} 1`,
  MusterRecordUnreadable: `muster_session_unreadable_total 1`,
  MusterSetInTrouble: `muster_farm_alerts_total{muster_farm_urgency="HIGH"} 1`,
};
/** Gauges with values that trigger their alerts. */
const STATES = {
  MusterLeaseStuck: `muster_lease_stuck 1`,
  MusterVolumeFills: volume(3.4),
  MusterBucketFills: bucket(81),
};
const TROUBLE = { ...EVENTS, ...STATES };
const WELL = `${volume(3.7)}\n${bucket(79)}\nmuster_farm_troubled{muster_farm_urgency="HIGH"} 0\nmuster_farm_troubled{muster_farm_urgency="LOW"} 3\nmuster_lease_stuck 0`;

/** A volume of 10 GiB. JetStream may use 8 GiB by default: at 3.6 GiB free it uses four fifths of its limit. */
function volume(gibFree: number): string {
  const claim = `{persistentvolumeclaim="data-nats-0"}`;
  return `kubelet_volume_stats_available_bytes${claim} ${gibFree}\nkubelet_volume_stats_capacity_bytes${claim} 10`;
}

function bucket(bytes: number): string {
  const name = `{db_collection_name="sessions"}`;
  return `muster_bucket_size${name} ${bytes}\nmuster_bucket_limit${name} 100`;
}

/** The samples of a Prometheus that has scraped for some time; each sample serves the rules for five minutes. */
function history(nowMs: number): string {
  const agesMinutes = [7, 12, 17];
  return agesMinutes.map((age) => `muster_ready{muster_ready_check="${age}"} 1 ${nowMs - age * 60_000}`).join("\n");
}

type Rules = {
  readonly data: {
    readonly groups: readonly {
      readonly rules: readonly { readonly health: string }[];
      readonly lastEvaluation: string;
    }[];
  };
};
type Alerts = { readonly data: { readonly alerts: readonly { readonly labels: { readonly alertname: string } }[] } };

it.skipIf(lack !== undefined)(
  `alerts on the first event of each counter, and on no event from before Prometheus started${lack === undefined ? "" : ` (skipped: ${lack})`}`,
  { timeout: 400_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const { path } = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-rules-")));
    // Events from before the first scrape.
    let exported = [WELL, ...Object.values(EVENTS)].join("\n");
    const exporter = createServer((_, response) => response.end(`${exported}\n`)).listen(0, "127.0.0.1");
    stack.defer(() => void exporter.close());
    await once(exporter, "listening");
    const target = `127.0.0.1:${(exporter.address() as AddressInfo).port}`;
    const [port = 0] = await findFreePorts(1);
    await writeFile(join(path, "prometheus.json"), JSON.stringify(configOf(target)));
    await writeFile(join(path, "rules.yaml"), await readFile(join(ROOT, "deploy/prometheus/rules.yaml")));
    execFileSync("chmod", ["-R", "a+rX", path]);
    const where = ["--detach", "--rm", "--network", "host", "--volume", `${path}:/rules:ro`, IMAGE];
    const flags = [
      "--config.file=/rules/prometheus.json",
      "--storage.tsdb.path=/tmp/prometheus",
      `--web.listen-address=127.0.0.1:${port}`,
    ];
    const id = execFileSync("docker", ["run", ...where, ...flags], { encoding: "utf8" }).trim();
    stack.defer(() => void execFileSync("docker", ["kill", id]));

    const ask = async <Answer>(question: string): Promise<Answer> =>
      (await (await fetch(`http://127.0.0.1:${port}/api/v1/${question}`)).json()) as Answer;
    const ringing = async (): Promise<ReadonlySet<string>> =>
      new Set((await ask<Alerts>("alerts")).data.alerts.map(({ labels }) => labels.alertname));
    const heard = async (): Promise<string[]> => [...(await ringing())].filter((name) => name in TROUBLE).toSorted();
    const lastEvaluatedMs = async (): Promise<number> =>
      Math.min(...(await ask<Rules>("rules")).data.groups.map(({ lastEvaluation }) => Date.parse(lastEvaluation)));
    const isScraped = async (): Promise<boolean> =>
      (await ask<{ data: { result: unknown[] } }>("query?query=muster_session_unreadable_total")).data.result.length >
      0;
    await until("the exporter is scraped", () => isScraped().catch(() => false), { timeoutMs: 120_000 });
    const scrapedMs = Date.now();
    await until("the rules are evaluated", async () => (await lastEvaluatedMs()) > scrapedMs);
    expect(await ringing()).toContain("MusterNoLedger");
    expect(await heard()).toEqual([]);
    exported = [...Object.values(TROUBLE), history(Date.now())].join("\n");
    const expected = Object.keys(TROUBLE).toSorted();
    await until("all alerts fire", async () => (await heard()).length === expected.length, { timeoutMs: 90_000 }).catch(
      async (cause: unknown) => {
        throw new Error(`only these alerts fire: ${(await heard()).join(", ")}`, { cause });
      },
    );
    const all = parse(await readFile(join(ROOT, "deploy/prometheus/rules.yaml"), "utf8")) as {
      groups: { rules: object[] }[];
    };
    const { data } = await ask<Rules>("rules");
    const health = data.groups.flatMap(({ rules }) => rules.map((rule) => rule.health));
    expect(health).toEqual(all.groups.flatMap(({ rules }) => rules.map(() => "ok")));
  },
);

function configOf(target: string): object {
  return {
    global: { scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: ["/rules/rules.yaml"],
    scrape_configs: [{ job_name: "muster", static_configs: [{ targets: [target] }] }],
  };
}
