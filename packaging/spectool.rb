# Homebrew on Linux: `git archive --prefix=spectool-0.2.0/ -o packaging/spectool-0.2.0.tar.gz HEAD`, then
# `brew install --formula packaging/spectool.rb`. Not tried.
class Spectool < Formula
  desc "Runs large language models fast on CPUs, with output that drafting never changes"
  homepage "file://#{__dir__}/../README.md"
  url "file://#{__dir__}/spectool-0.2.0.tar.gz"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "pkgconf" => :build
  depends_on "json-c"
  depends_on "libedit"
  depends_on "libmicrohttpd"
  depends_on "libseccomp"
  depends_on :linux
  depends_on "numactl"
  depends_on "pcre2"
  depends_on "utf8proc"
  depends_on "xxhash"
  depends_on "zstd"

  def install
    system "cmake", "-S", ".", "-B", "build", "-DBUILD_TESTING=OFF", "-DSPECTOOL_MPI=OFF", "-DSPECTOOL_BLAS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/spectool --version")
  end
end
