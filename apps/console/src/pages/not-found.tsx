import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

export function NotFound(): ReactNode {
  return (
    <section>
      <h1>No such page</h1>
      <p>
        <Link to="/">Overview</Link>
      </p>
    </section>
  );
}
