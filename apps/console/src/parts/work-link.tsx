import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Work } from "../domain/work.ts";

export function WorkLink({ work: { kind, id, type, name } }: { readonly work: Work }): ReactNode {
  return (
    <Link
      className="long"
      to="/workloads/$kind/$"
      params={{ kind, _splat: id }}
      search={kind === "job" && type !== "Job" ? { type } : {}}
      title={id}
    >
      {name}
    </Link>
  );
}
