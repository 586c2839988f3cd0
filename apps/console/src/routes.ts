import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { readWorkFilter, type WorkFilter } from "./domain/select-work.ts";
import { readSort, type Sort } from "./domain/sort.ts";

type Search = Readonly<Record<string, unknown>>;

/** The shown tab of a work page, and the kind of a job if several jobs have one name. */
export type WorkPageSearch = { readonly tab?: string; readonly type?: string };

// main.tsx assigns the components of pages, so that pages may import their routes.
export const rootRoute = createRootRoute();

const getParentRoute = () => rootRoute;

export const overviewRoute = createRoute({ getParentRoute, path: "/" });

/** The state of lists is in their addresses, so that it survives a reload and users can send it to others. */
export const workRoute = createRoute({
  getParentRoute,
  path: "/workloads",
  validateSearch: (search: Search): WorkFilter & Sort => ({ ...readWorkFilter(search), ...readSort(search) }),
});

export const workPageRoute = createRoute({
  getParentRoute,
  path: "/workloads/$kind/$",
  validateSearch: ({ tab, type }: Search): WorkPageSearch => ({
    ...(typeof tab === "string" && { tab }),
    ...(typeof type === "string" && { type }),
  }),
});

export const queuesRoute = createRoute({ getParentRoute, path: "/queues" });

export const nodesRoute = createRoute({
  getParentRoute,
  path: "/nodes",
  validateSearch: (search: Search): Pick<WorkFilter, "q"> & Sort => {
    const { q } = readWorkFilter(search);
    return { ...(q !== undefined && { q }), ...readSort(search) };
  },
});

export const submitRoute = createRoute({ getParentRoute, path: "/submit" });

const routeTree = rootRoute.addChildren([
  overviewRoute,
  workRoute,
  workPageRoute,
  queuesRoute,
  nodesRoute,
  submitRoute,
]);

export const router = createRouter({ routeTree, defaultPreload: "intent", scrollRestoration: true });

declare module "@tanstack/react-router" {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions -- the router reads its types from this interface
  interface Register {
    router: typeof router;
  }
}
