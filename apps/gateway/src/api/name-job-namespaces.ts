import type { Route } from "@muster/gateway-api";
import { JobService } from "@muster/proto";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Adds the namespace to the keys of the jobs in a reply as JSON. Keys of a job-controller of the last release lack it: that release serves only one namespace,
 * which its lists state, and which a request for one job contains.
 */
export function nameJobNamespaces({ resource }: Route, reply: Fields, request: Fields): Fields {
  if (resource.service !== JobService) return reply;
  const { jobs, job } = reply;
  const namespace = textIn(reply, "namespace") || textIn(request, "namespace") || textIn(request["key"], "namespace");
  return {
    ...reply,
    ...(Array.isArray(jobs) && { jobs: jobs.map((each: Fields) => withNamespace(each, namespace)) }),
    ...(isFields(job) && { job: withNamespace(job, namespace) }),
  };
}

function withNamespace(job: Fields, namespace: string): Fields {
  const { key } = job;
  return !isFields(key) || textIn(key, "namespace") !== "" ? job : { ...job, key: { ...key, namespace } };
}

function textIn(fields: unknown, name: string): string {
  const value = isFields(fields) ? fields[name] : undefined;
  return typeof value === "string" ? value : "";
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}
