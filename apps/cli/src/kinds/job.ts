import { pause } from "@muster/backoff";
import type { Client } from "@muster/bus";
import { findFault } from "@muster/faults";
import { API_GROUP } from "@muster/names";
import { JobService } from "@muster/proto";
import { askExplanation } from "../adapters/ask-explanation.ts";
import { CALL_TIMEOUT_MS, LONG_POLL_MS, LONG_POLL_TIMEOUT_MS, readPages } from "../adapters/read-pages.ts";
import { pickFields } from "../adapters/message-fields.ts";
import { toJobEvent, toJob, toRawEvent } from "../adapters/messages.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import { continueJob, JOB_CONDITIONS, recallPhases, addSubmissionTime } from "../domain/job-phases.ts";
import { readNamespace, nameManifest, readJobDocument } from "../domain/read-job-document.ts";
import type { Work } from "../domain/work.ts";
import { isAborted } from "../is-aborted.ts";
import type { CheckResult, WorkKind, ServiceLink, WorkCalls } from "./kind.ts";
// Imported, so that it is in the bundle; editors read it at the root.
// eslint-disable-next-line @nx/enforce-module-boundaries
import schema from "../../../../schemas/job.schema.json" with { type: "json" };

/** The `kind` and `apiVersion` of their documents. The first is Muster's own; `job/NAME` matches any of them. */
const OWN = "Job";
const WORDS = [OWN, "TFJob", "PyTorchJob", "MPIJob", "JAXJob"] as const;
type Word = (typeof WORDS)[number];

const SCHEMA: Schema = schema;
/** The pause after a failed long poll, which only delays a hint. */
const RETRY_MS = 1000;

/** Gangs of pods that succeed or fail as one, which the job controller runs: Muster's own kind, and Kubeflow's. */
export const JOBS: readonly WorkKind[] = WORDS.map(buildJobKind);

function buildJobKind(word: Word): WorkKind {
  const noun = word.toLowerCase();
  const own = word === OWN;
  return {
    noun,
    plural: `${noun}s`,
    controller: "job controller",
    missing: "`muster get jobs` shows those that exist",
    ...(!own && { within: OWN.toLowerCase() }),
    documents: [word],
    schema: own ? () => SCHEMA : undefined,
    read: (value) => {
      const apiVersion = own ? `${API_GROUP}/v1` : "kubeflow.org/v1";
      const read = readJobDocument(value, apiVersion, own ? SCHEMA : undefined);
      if (!read.ok) return read;
      const { name, manifest } = read.value;
      return {
        ok: true,
        value: {
          name,
          document: manifest,
          check: (link, exact) => check(link, exact, manifest),
          submit: (link, request) => submit(link, request, manifest),
        },
      };
    },
    calls: (link) => jobCalls(word, link),
    conditions: JOB_CONDITIONS,
    goneBy: (name) =>
      `\`kubectl delete ${noun}s.${own ? API_GROUP : "kubeflow.org"} ${name}\` deletes it, or its ttlSecondsAfterFinished does`,
    hasOwnerIds: true,
    hasLabels: true,
    explain: (link, name) => explain(word, link, name),
  };
}

async function check(
  { client, stop, namespace }: ServiceLink,
  name: string,
  manifest: Readonly<Record<string, unknown>>,
): Promise<CheckResult> {
  const own = readNamespace(manifest);
  if (own !== undefined && namespace !== undefined && own !== namespace) {
    const reason = `is ${JSON.stringify(own)}, and --namespace is "${namespace}"`;
    return { problems: [{ field: "metadata.namespace", reason }], warnings: [] };
  }
  const manifestJson = JSON.stringify(nameManifest(manifest, name, namespace));
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const { problems, warnings } = await client(JobService).checkJob({ manifestJson }, options);
  return { problems: problems.map((each) => pickFields(each, "field", "reason")), warnings };
}

async function submit(
  { client, stop, namespace }: ServiceLink,
  { requestId, name }: { readonly requestId: string; readonly name: string },
  manifest: Readonly<Record<string, unknown>>,
): Promise<Work> {
  const manifestJson = JSON.stringify(nameManifest(manifest, name, namespace));
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const sentMs = Date.now();
  const reply = await client(JobService).submitJob({ requestId, manifestJson }, options);
  return {
    ...addSubmissionTime(toJob(reply.job), sentMs),
    warnings: reply.warnings.map((message) => ({ code: "MANIFEST", message })),
  };
}

function explain(
  word: Word,
  { client, stop, namespace = "" }: ServiceLink,
  name: string,
): Promise<ExplainedReservation> {
  const jobs = client(JobService);
  return askExplanation(
    { service: "job-controller", area: JobService.area, stop },
    (options) => askOf(word, { name, namespace }, (key) => jobs.explainJob({ key }, options)),
    (options) => askOf(word, { name, namespace }, (key) => jobs.getJob({ key }, options)),
  );
}

function jobCalls(word: Word, { client, stop, namespace = "", allNamespaces = false }: ServiceLink): WorkCalls {
  const jobs = client(JobService);
  const keyOf = ({ kind, name }: Work): Key => {
    return { kind: WORDS.find((each) => each.toLowerCase() === kind) ?? "", name, namespace };
  };
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const ask = <Reply>(name: string, question: (key: Key) => Promise<Reply>): Promise<Reply> =>
    askOf(word, { name, namespace }, question);
  return {
    get: async (name) => toJob((await ask(name, (key) => jobs.getJob({ key }, options))).job),
    after: async (seen, signal) => {
      const request = { key: keyOf(seen), afterRevision: String(seen.revision), waitMs: LONG_POLL_MS };
      const reply = await jobs.watchJob(request, { timeoutMs: LONG_POLL_TIMEOUT_MS, signal });
      return continueJob(seen, toJob(reply.job), Date.now());
    },
    list: async (labelSelector = "") => {
      const request = { namespace, labelSelector };
      const read = readPages(
        (page) => listIn({ namespace, allNamespaces }, jobs.listJobs({ ...page, ...request }, options)),
        "jobs",
        toJob,
      );
      const all = allNamespaces ? (await read).map(withNamespace) : await read;
      return word === OWN ? all : all.filter(({ kind }) => kind === word.toLowerCase());
    },
    recall: async (seen) => {
      const { events } = await jobs.listJobEvents({ key: keyOf(seen) }, options);
      return recallPhases(seen, events.map(toRawEvent));
    },
    cancel: async (name) => {
      const cancelled = ask(name, (key) => jobs.cancelJob({ requestId: crypto.randomUUID(), key }, options));
      return toJob((await cancelled).job);
    },
    suspend: async (name, suspended) => {
      const request = { requestId: crypto.randomUUID(), suspended };
      const { job } = await ask(name, (key) => jobs.suspendJob({ ...request, key }, options));
      return toJob(job);
    },
    log: async (name, component, from, { signal, follow, container = "" } = { signal: stop, follow: false }) => {
      const timeoutMs = follow ? LONG_POLL_TIMEOUT_MS : CALL_TIMEOUT_MS;
      const { chunk, nextOffset, complete, truncated, run, pod } = await ask(name, (key) =>
        jobs.getJobLogs(
          { key, component, container, ...from, waitMs: follow ? LONG_POLL_MS : 0 },
          { timeoutMs, signal },
        ),
      );
      return { bytes: chunk, next: { offset: nextOffset, run }, pod, complete, truncated };
    },
    events: async (seen) => {
      const { events } = await jobs.listJobEvents({ key: keyOf(seen) }, options);
      return [...seen.events, ...events.map(toJobEvent)];
    },
    onEvent: (listener, name) => {
      const over = new AbortController();
      const watching =
        name === undefined
          ? Promise.resolve()
          : watch({ client }, { word, name, namespace }, () => listener(name), over.signal);
      return Promise.resolve({
        [Symbol.asyncDispose]: async () => {
          over.abort();
          await watching;
        },
      });
    },
  };
}

type ListReply = Awaited<ReturnType<Client<typeof JobService>["listJobs"]>>;

/**
 * Drops jobs of other namespaces unless all are requested: a reply to a request without a namespace contains the jobs of every namespace. A key without a
 * namespace is from a job-controller of the last release, which serves only its own namespace.
 */
async function listIn(
  { namespace, allNamespaces }: { readonly namespace: string; readonly allNamespaces: boolean },
  asked: Promise<ListReply>,
): Promise<Pick<ListReply, "continue" | "jobs">> {
  const { continue: next, jobs, namespace: own } = await asked;
  if (allNamespaces || namespace !== "" || own === "") return { continue: next, jobs };
  return { continue: next, jobs: jobs.filter(({ key }) => (key?.namespace || own) === own) };
}

function withNamespace(work: Work): Work {
  return { ...work, columns: { namespace: work.namespace ?? "", ...work.columns } };
}

type Key = { readonly kind: string; readonly name: string; readonly namespace: string };

/** Requests the job of this kind; Muster's own kind stands for a job of any kind. */
function askOf<Reply>(word: Word, job: Omit<Key, "kind">, question: (key: Key) => Promise<Reply>): Promise<Reply> {
  return word === OWN ? askAny(job, question) : question({ kind: word, ...job });
}

/** Requests the job of this name, whatever its kind; if several kinds have the name, the job of Muster's own kind. */
async function askAny<Reply>(job: Omit<Key, "kind">, question: (key: Key) => Promise<Reply>): Promise<Reply> {
  try {
    return await question({ kind: "", ...job });
  } catch (ambiguous) {
    const fault = findFault(ambiguous);
    if (fault?.code !== "invalid_request" || fault.field !== "key.kind") throw ambiguous;
    try {
      return await question({ kind: OWN, ...job });
    } catch (error) {
      throw findFault(error)?.code === "not_found" ? ambiguous : error;
    }
  }
}

/** Calls back whenever the job changes. A failure only delays the callback: later calls report the failure. */
async function watch(
  { client }: Pick<ServiceLink, "client">,
  { word, ...meant }: { readonly word: Word; readonly name: string; readonly namespace: string },
  changed: () => void,
  signal: AbortSignal,
): Promise<void> {
  const jobs = client(JobService);
  const question = (afterRevision: string) => (key: Key) =>
    jobs.watchJob({ key, afterRevision, waitMs: LONG_POLL_MS }, { timeoutMs: LONG_POLL_TIMEOUT_MS, signal });
  let revision = "";
  while (!isAborted(signal)) {
    try {
      const { job } = await askOf(word, meant, question(revision));
      if (job?.revision === revision) continue;
      revision = job?.revision ?? "";
      changed();
    } catch (error) {
      if (findFault(error) === undefined) throw error;
      await pause(RETRY_MS, signal);
    }
  }
}
