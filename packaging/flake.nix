# Nix: `nix build 'git+file:.?dir=packaging'` at the top of the source. Not tried.
{
  description = "Runs large language models fast on CPUs, with output that drafting never changes";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
  outputs = { self, nixpkgs }:
    let
      packageFor = system:
        let pkgs = nixpkgs.legacyPackages.${system};
        in pkgs.stdenv.mkDerivation {
          pname = "spectool";
          version = "0.2.0";
          src = ../.;
          nativeBuildInputs = [ pkgs.cmake pkgs.pkg-config ];
          buildInputs = with pkgs; [ zstd json_c xxHash pcre2 utf8proc libedit libmicrohttpd numactl libseccomp ];
          cmakeFlags = [ "-DBUILD_TESTING=OFF" "-DSPECTOOL_MPI=OFF" "-DSPECTOOL_BLAS=OFF" ];
          meta = { license = pkgs.lib.licenses.mit; platforms = pkgs.lib.platforms.linux; mainProgram = "spectool"; };
        };
    in {
      packages = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: { default = packageFor system; });
    };
}
