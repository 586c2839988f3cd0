import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** `vite` serves the sources beside a gateway at its default address. */
export default defineConfig(({ command }) => {
  // In another environment, such as that of the test runner, the files would contain React's development build, and paths of this machine.
  if (command === "build") process.env["NODE_ENV"] = "production";
  return {
    plugins: [react()],
    // The gateway forbids inline scripts, so Vite must not inline assets.
    build: { target: "es2024", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
    server: { proxy: { "/v1": "http://127.0.0.1:8480", "/auth": "http://127.0.0.1:8480" } },
  };
});
