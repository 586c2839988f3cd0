import type { AccountTokens } from "./access/account-tokens.ts";
import { answerTokenRequest } from "./access/token-request.ts";
import { negotiateForm } from "./negotiate-form.ts";
import { sendAnswer, answerJson, type HttpExchange } from "./answer.ts";
import { parseMediaType, parseJson, parseYaml, readBody, readObject, readOptions, requireObjectType } from "./body.ts";
import { buildItem, type ObjectForm } from "./encode.ts";
import { evictPod } from "./eviction.ts";
import { isObject, type JsonObject, getObject, getText } from "./json.ts";
import { listObjects, makeMatcher, parseSelectors } from "./list.ts";
import { getName, getNamespace, getUid } from "./metadata.ts";
import { nodes } from "./kinds/node.ts";
import { formatText } from "./object-text.ts";
import {
  bindObject,
  createObject,
  decodeBody,
  type Outcome,
  patchObject,
  refuseBody,
  replaceObject,
  type WriteRequest,
} from "./write-objects.ts";
import { APPLY, checkPatchOptions, parsePatchType } from "./patch.ts";
import { type KubeletClient, locateKubelet } from "./kubelet-request.ts";
import { locateExec, tunnelExec } from "./pod-exec.ts";
import { chooseContainer, buildLogPath, streamLog } from "./pod-log.ts";
import { parseBoolean, parseDeleteOptions, isDryRun, parseInteger, parseVersionQuery } from "./query.ts";
import type { ObjectName, Registry } from "./registry.ts";
import { buildApiVersion, type RequestUser, type Resource } from "./resource.ts";
import {
  badRequest,
  fail,
  methodNotAllowed,
  noSuchResource,
  notAcceptable,
  notServed,
  buildSuccessStatus,
} from "./status.ts";
import type { ObjectStore } from "./store.ts";
import type { Target } from "./target.ts";
import { planWatch } from "./watch-events.ts";
import type { Watches } from "./watch.ts";

export type RestDeps = {
  readonly registry: Registry;
  readonly store: ObjectStore;
  readonly watches: Watches;
  readonly nowMs: () => number;
  /** Undefined: logs and commands are unavailable. */
  readonly kubelet: KubeletClient | undefined;
  readonly tokens: AccountTokens;
};

type Call = {
  readonly deps: RestDeps;
  readonly exchange: HttpExchange;
  readonly target: Target;
  readonly view: ObjectForm;
  readonly asker: RequestUser;
};

/** Serves a request for a resource. Refusals are thrown as failures. */
export async function serveTarget(
  deps: RestDeps,
  exchange: HttpExchange,
  { target, asker }: Pick<Call, "target" | "asker">,
): Promise<void> {
  const include = exchange.query.get("includeObject");
  const view: ObjectForm = {
    resource: target.resource,
    form: negotiateForm(exchange.request.headers.accept) ?? fail(notAcceptable()),
    includeObject: include === "Object" || include === "None" ? include : "Metadata",
  };
  const call: Call = { deps, exchange, target, view, asker };
  if (target.resource.answer !== undefined) {
    if (target.name !== "") return fail(noSuchResource());
    return exchange.request.method === "POST" ? create(call) : fail(methodNotAllowed());
  }
  if (target.name === "") return serveCollection(call);
  if (target.subresource === "") return serveItem(call);
  if (target.subresource === "scale") return fail(notServed("the subresource scale"));
  const known = target.resource.subresources.find((name) => name === target.subresource);
  if (known === undefined) return fail(noSuchResource());
  const method = exchange.request.method ?? "";
  switch (known) {
    case "status":
      return ["GET", "PUT", "PATCH"].includes(method) ? serveItem(call, "status") : fail(methodNotAllowed());
    case "finalize":
      return method === "PUT" ? update(call, "finalize") : fail(methodNotAllowed());
    case "binding":
      return method === "POST" ? bind(call) : fail(methodNotAllowed());
    case "eviction":
      return method === "POST" ? evict(call) : fail(methodNotAllowed());
    case "token":
      return method === "POST" ? requestToken(call) : fail(methodNotAllowed());
    case "log":
      if (method !== "GET") return fail(methodNotAllowed());
      readLog(call);
      return;
    case "exec":
      if (method !== "GET" && method !== "POST") return fail(methodNotAllowed());
      runCommand(call);
      return;
    case "attach":
    case "portforward":
      return fail(notServed(known));
  }
}

async function serveCollection(call: Call): Promise<void> {
  const { deps, exchange, target, view } = call;
  switch (exchange.request.method) {
    case "GET":
      if (parseBoolean(exchange.query, "watch") === true) watch(call);
      else sendAnswer(exchange, 200, listObjects(deps, target, view, exchange.query));
      return;
    case "POST":
      if (target.resource.namespaced && target.namespace === "") return fail(methodNotAllowed());
      return create(call);
    case "DELETE":
      if (target.resource.kind === "Namespace") return fail(methodNotAllowed());
      return deleteCollection(call);
    default:
      return fail(methodNotAllowed());
  }
}

async function serveItem(call: Call, subresource?: "status"): Promise<void> {
  const { deps, exchange, target } = call;
  switch (exchange.request.method) {
    case "GET":
      show(call, 200, deps.registry.get(target));
      return;
    case "PUT":
      return update(call, subresource);
    case "PATCH":
      return patch(call, subresource);
    case "DELETE":
      return remove(call);
    default:
      return fail(methodNotAllowed());
  }
}

function show(
  { deps, exchange, view }: Call,
  code: number,
  object: JsonObject,
  warnings: readonly string[] = [],
): void {
  if (view.form === "json") answerJson(exchange, code, formatText(object), warnings);
  else sendAnswer(exchange, code, buildItem(view, object, deps.nowMs()), warnings);
}

function watch({ deps, exchange, target, view }: Call): void {
  const { query } = exchange;
  const versions = parseVersionQuery(query);
  const seconds = parseInteger(query, "timeoutSeconds") ?? 0;
  deps.watches.serve(exchange, {
    view,
    plan: planWatch(versions),
    matches: makeMatcher(target, parseSelectors(target.resource, query)),
    timeoutMs: seconds > 0 ? seconds * 1000 : undefined,
    bookmarks: versions.allowBookmarks,
  });
}

/** Reads the options of a write outside its body. */
function readWriteRequest({ deps, exchange, target }: Call, options: string): WriteRequest {
  const { query } = exchange;
  const fieldValidation = query.get("fieldValidation") ?? "Warn";
  return { registry: deps.registry, target, dryRun: isDryRun(query, options), fieldValidation };
}

async function create(call: Call): Promise<void> {
  const { exchange, target, asker } = call;
  requireObjectType(exchange.request);
  const write = readWriteRequest(call, "CreateOptions");
  const body = await readObject(exchange.request, buildExpected(target.resource));
  if (target.resource.answer !== undefined) {
    const { object, warnings } = decodeBody(write, body, refuseBody(target.resource));
    show(call, 201, target.resource.answer(object, asker), warnings);
    return;
  }
  showOutcome(call, createObject(write, body));
}

async function update(call: Call, subresource?: "status" | "finalize"): Promise<void> {
  const { exchange, target } = call;
  requireObjectType(exchange.request);
  const write = readWriteRequest(call, "UpdateOptions");
  const body = await readObject(exchange.request, buildExpected(target.resource));
  showOutcome(call, replaceObject(write, body, subresource));
}

async function patch(call: Call, subresource?: "status"): Promise<void> {
  const { exchange, target } = call;
  const type = parsePatchType(parseMediaType(exchange.request), target.resource.patchesStrategically);
  const write = readWriteRequest(call, "PatchOptions");
  checkPatchOptions(type, exchange.query.get("fieldManager") ?? "", parseBoolean(exchange.query, "force"));
  const text = await readBody(exchange.request);
  const document = type === APPLY ? parseYaml(text, "error decoding YAML") : parseJson(text, "error decoding patch");
  showOutcome(call, patchObject(write, { type, patch: document }, subresource));
}

function showOutcome(call: Call, { object, created, warnings }: Outcome): void {
  show(call, created ? 201 : 200, object, warnings);
}

function buildExpected(resource: Resource): { apiVersion: string; kind: string } {
  return { apiVersion: buildApiVersion(resource), kind: resource.kind };
}

async function remove(call: Call): Promise<void> {
  const { deps, exchange, target } = call;
  const { dryRun, ...options } = parseDeleteOptions(exchange.query, await optionalBody(exchange));
  const { object, gone } = deps.registry.delete(target, options, dryRun);
  if (!gone || target.resource.deleteReturnsObject) {
    show(call, 200, object);
    return;
  }
  const { group, plural: kind } = target.resource;
  sendAnswer(exchange, 200, buildSuccessStatus({ name: target.name, group, kind, uid: getUid(object) }));
}

async function deleteCollection(call: Call): Promise<void> {
  const { deps, exchange, target, view } = call;
  const { dryRun, ...options } = parseDeleteOptions(exchange.query, await optionalBody(exchange));
  const query = new URLSearchParams(
    [...exchange.query].filter(([key]) => ["labelSelector", "fieldSelector"].includes(key)),
  );
  const before = listObjects(deps, target, { ...view, form: "json" }, query);
  const items = Array.isArray(before["items"]) ? before["items"].filter(isObject) : [];
  for (const item of items) {
    const name: ObjectName = { resource: target.resource, namespace: getNamespace(item), name: getName(item) };
    if (deps.registry.find(name) !== undefined) deps.registry.delete(name, options, dryRun);
  }
  sendAnswer(exchange, 200, before);
}

/** A deletion may come without a body. */
async function optionalBody(exchange: HttpExchange): Promise<JsonObject> {
  return readOptions(exchange.request);
}

async function bind(call: Call): Promise<void> {
  const { deps, exchange } = call;
  requireObjectType(exchange.request);
  const write = readWriteRequest(call, "CreateOptions");
  const body = await readObject(exchange.request, { apiVersion: "v1", kind: "Binding" });
  bindObject(write, body, deps.nowMs());
  sendAnswer(exchange, 201, buildSuccessStatus(undefined, 201));
}

async function evict({ deps, exchange, target }: Call): Promise<void> {
  const body = await readObject(exchange.request, { apiVersion: "policy/v1", kind: "Eviction" });
  evictPod(deps, target, body, parseDeleteOptions(exchange.query, getObject(body, "deleteOptions")));
  sendAnswer(exchange, 201, buildSuccessStatus(undefined, 201));
}

async function requestToken({ deps, exchange, target }: Call): Promise<void> {
  const body = await readObject(exchange.request, { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest" });
  sendAnswer(exchange, 201, answerTokenRequest(deps, target, body));
}

function readLog({ deps, exchange, target }: Call): void {
  const pod = deps.registry.get(target);
  const container = chooseContainer(pod, target.name, exchange.query.get("container") ?? "");
  if (getText(pod, "spec", "nodeName") === "") {
    exchange.response.writeHead(204);
    exchange.response.end();
    return;
  }
  const address = locateKubelet(getNode(deps, pod));
  streamLog(exchange, address, buildLogPath(pod, container, exchange.query), requireKubelet(deps));
}

function runCommand({ deps, exchange, target }: Call): void {
  const pod = deps.registry.get(target);
  const container = chooseContainer(pod, target.name, exchange.query.get("container") ?? "");
  const path = locateExec(pod, container, exchange.query);
  tunnelExec(exchange, locateKubelet(getNode(deps, pod)), path, requireKubelet(deps));
}

function getNode({ registry }: RestDeps, pod: JsonObject): JsonObject {
  return registry.get({ resource: nodes, namespace: "", name: getText(pod, "spec", "nodeName") });
}

function requireKubelet({ kubelet }: RestDeps): KubeletClient {
  return kubelet ?? fail(badRequest("this server was started without access to kubelets"));
}
