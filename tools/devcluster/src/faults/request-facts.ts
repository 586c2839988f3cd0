/** The facts about a request to a Kubernetes API, in Kubernetes' own words. */
export type RequestFacts = {
  readonly verb: Verb;
  /** `pods`, `pods/status`; the path itself for other requests. */
  readonly resource: string;
  /** "" for cluster-scoped resources. */
  readonly namespace: string;
  /** "" for a collection. */
  readonly name: string;
  /** The client name of its kubeconfig; "" for the kubeconfig without a name. */
  readonly who: string;
};

export const VERBS = [
  "get",
  "list",
  "watch",
  "create",
  "update",
  "patch",
  "delete",
  "deletecollection",
  "other",
] as const;
export type Verb = (typeof VERBS)[number];

export type HttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly who: string;
};

/** Reads a request as the API server's request info does; no catalogue of resources is needed. */
export function buildRequestFacts({ method, url, who }: HttpRequest): RequestFacts {
  const base = "https://127.0.0.1";
  const { pathname, searchParams } = URL.canParse(url, base) ? new URL(url, base) : new URL(base);
  const place = parsePlace(pathname.split("/").filter((segment) => segment !== ""));
  const watch = searchParams.get("watch");
  const watches = watch !== null && watch !== "0" && watch !== "false";
  return {
    verb: decideVerb(method, place, watches),
    resource: place?.resource ?? pathname,
    namespace: place?.namespace ?? "",
    name: place?.name ?? "",
    who,
  };
}

type Place = { readonly resource: string; readonly namespace: string; readonly name: string };

function parsePlace(segments: readonly string[]): Place | undefined {
  const rest = segments[0] === "api" ? segments.slice(2) : segments[0] === "apis" ? segments.slice(3) : [];
  const [first, second = "", third] = rest;
  if (first === undefined) return undefined;
  const isInside = first === "namespaces" && third !== undefined && third !== "status" && third !== "finalize";
  const [type = "", name = "", subresource] = isInside ? rest.slice(2) : rest;
  return {
    resource: subresource === undefined ? type : `${type}/${subresource}`,
    namespace: isInside ? second : "",
    name,
  };
}

function decideVerb(method: string, place: Place | undefined, watches: boolean): Verb {
  if (place === undefined) return "other";
  const isItem = place.name !== "";
  switch (method) {
    case "GET":
      if (watches) return "watch";
      return isItem ? "get" : "list";
    case "POST":
      return "create";
    case "PUT":
      return "update";
    case "PATCH":
      return "patch";
    case "DELETE":
      return isItem ? "delete" : "deletecollection";
    default:
      return "other";
  }
}
