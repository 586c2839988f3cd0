import type { Route } from "./route.ts";

/** Follows several lists over one connection. */
export const WATCH_PATH = "/v1/watch";

/** Lists in one request. */
export const MAX_WATCHED_LISTS = 16;

/** A list in the query of `WATCH_PATH`, by its path below `/v1/`, such as `sessions`, `jobs` and `jobs/team-a`. */
export type NamedList = {
  readonly name: string;
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
};

/** The paths of all lists that can be watched below `/v1/`, with the names of their parameters: `jobs/{namespace}`. */
export function listNames(routes: readonly Route[]): readonly string[] {
  return routes.filter(isWatchable).map(({ path }) => relative(path).replaceAll(/:(\w+)/g, "{$1}"));
}

/** The list with this name; undefined: no list of this name can be watched. Parameters are not checked. */
export function findList(routes: readonly Route[], name: string): NamedList | undefined {
  const parts = name.split("/");
  for (const route of routes) {
    const pattern = relative(route.path).split("/");
    if (!isWatchable(route) || pattern.length !== parts.length) continue;
    if (!pattern.every((part, at) => part.startsWith(":") || part === parts[at])) continue;
    const params = pattern.flatMap((part, at) => (part.startsWith(":") ? [[part.slice(1), parts[at] ?? ""]] : []));
    return { name, route, params: Object.fromEntries(params) as Record<string, string> };
  }
  return undefined;
}

/** Whether the route is a list that can be followed. */
export function isWatchable({ answer, query }: Route): boolean {
  return answer.kind === "list" && "watch" in query;
}

function relative(path: string): string {
  return path.slice("/v1/".length);
}
