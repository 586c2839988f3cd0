import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazyRouteComponent, RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RequestError } from "./adapters/request.ts";
import { NotFound } from "./pages/not-found.tsx";
import { Overview } from "./pages/overview.tsx";
import { WorkList } from "./pages/work-list.tsx";
import { Shell } from "./parts/shell.tsx";
import { SignInGate } from "./parts/sign-in-gate.tsx";
import {
  nodesRoute,
  overviewRoute,
  queuesRoute,
  rootRoute,
  router,
  submitRoute,
  workPageRoute,
  workRoute,
} from "./routes.ts";

rootRoute.update({ component: Shell, notFoundComponent: NotFound });
overviewRoute.update({ component: Overview });
workRoute.update({ component: WorkList });
workPageRoute.update({ component: lazyRouteComponent(() => import("./pages/work-page.tsx"), "WorkPage") });
queuesRoute.update({ component: lazyRouteComponent(() => import("./pages/queues.tsx"), "Queues") });
nodesRoute.update({ component: lazyRouteComponent(() => import("./pages/nodes.tsx"), "Nodes") });
submitRoute.update({ component: lazyRouteComponent(() => import("./pages/submit.tsx"), "Submit") });

const MAX_RETRIES = 3;

const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // A retry of a refused request is refused too; a retry of an unanswered request may succeed.
      retry: (failures, error) =>
        failures < MAX_RETRIES &&
        !(error instanceof RequestError && error.problem.status >= 400 && error.problem.status < 500),
    },
  },
});

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no place for the console");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <SignInGate>
        <RouterProvider router={router} />
      </SignInGate>
    </QueryClientProvider>
  </StrictMode>,
);
