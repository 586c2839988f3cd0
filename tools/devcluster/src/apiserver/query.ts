import type { DeleteOptions, Propagation } from "./deletion.ts";
import { type JsonValue, type JsonObject, getList, findNumber, getText } from "./json.ts";
import { badRequest, fail, invalid, unsupported } from "./status.ts";
import type { VersionQuery } from "./watch-events.ts";

const PROPAGATIONS: readonly Propagation[] = ["Foreground", "Background", "Orphan"];

/** Parses booleans as Kubernetes does: present, and neither `0` nor `false`. */
export function parseBoolean(query: URLSearchParams, name: string): boolean | undefined {
  const value = query.get(name);
  return value === null ? undefined : value !== "0" && value !== "false";
}

/** Fails with 400 if the parameter is no integer. */
export function parseInteger(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null || value === "") return undefined;
  if (/^-?\d{1,15}$/.test(value)) return Number(value);
  return fail(badRequest(`strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax`));
}

export function parseVersionQuery(query: URLSearchParams): VersionQuery {
  return {
    resourceVersion: query.get("resourceVersion") ?? "",
    match: query.get("resourceVersionMatch") ?? "",
    sendInitialEvents: parseBoolean(query, "sendInitialEvents"),
    allowBookmarks: parseBoolean(query, "allowWatchBookmarks") ?? false,
    continues: (query.get("continue") ?? "") !== "",
  };
}

/** Returns whether the request is a dry run. Fails with 422 for any word but `All`. */
export function isDryRun(query: URLSearchParams, kind: string): boolean {
  const values = query.getAll("dryRun").filter((value) => value !== "");
  if (values.every((value) => value === "All")) return values.length > 0;
  return fail(invalid({ group: "meta.k8s.io", kind }, "", [unsupported("dryRun", values, ["All"])]));
}

/** Options come in the body or in the query; the body wins. */
export function parseDeleteOptions(
  query: URLSearchParams,
  body: JsonObject,
): DeleteOptions & { readonly dryRun: boolean } {
  const propagation = getText(body, "propagationPolicy") || (query.get("propagationPolicy") ?? "");
  const known = PROPAGATIONS.find((policy) => policy === propagation);
  if (propagation !== "" && known === undefined) {
    const problem = unsupported("propagationPolicy", propagation, [...PROPAGATIONS, "nil"]);
    fail(invalid({ group: "meta.k8s.io", kind: "DeleteOptions" }, "", [problem]));
  }
  const seconds = findNumber(body, "gracePeriodSeconds") ?? parseInteger(query, "gracePeriodSeconds");
  return {
    gracePeriodSeconds: seconds,
    propagation: known,
    uid: textOrNothing(body, "uid"),
    revision: textOrNothing(body, "resourceVersion"),
    dryRun: getList(body, "dryRun").includes("All") || isDryRun(query, "DeleteOptions"),
  };
}

function textOrNothing(body: JsonValue, key: string): string | undefined {
  const text = getText(body, "preconditions", key);
  return text === "" ? undefined : text;
}
